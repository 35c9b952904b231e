"""How good is a detector? Figures from judged events with known attacks, beside simpler methods on them.

The parts, each in its file:

    overview     a look over a history: its span, who is in it, when its attacks were, how it arrived
    judged       judged events, as small as figures need them
    quorums      what several quorums make of the same votes
    rows         what peers are given of the events: codes, principals, and the alert that each would belong to
    truth        which attack session an event belongs to, and where what is learned ends
    baselines    the peers, scored on the same rows, each at its threshold
    counting     how often something was seen before: what peers that count are made of
    ranking      how a peer's scores of events become a queue of alerts
    rarity       peers: how rare it is, by smoothed counts
    outliers     peers: IsolationForest and ECOD on the log frequencies
    rules        peers: an action never seen before, too much in an hour
    peers_dfencoder  peers: the published autoencoder, one a principal
    metrics      what is reported, with its formulas
    curves       precision against recall, over events and over alerts
    causes       false alerts by the harmless surprise they come from
    tipping      when an alert about an attack is there
    intervals    how sure a figure is
    form         whether the form of a record alone betrays an attack
    form         whether the form of a record betrays an attack: what a benchmark must not do
    pool         figures of several organisations as one
"""
