"""How good is a detector? Figures from judged events with known attacks, beside simpler methods on them.

The parts, each in its file:

    rows         the events of a trial: codes, principals, and the alert that each event would belong to
    truth        which attack session an event belongs to, and where what is learned ends
    baselines    simpler methods, scored on the same rows
    metrics      what is reported, with its formulas
    pool         figures of several organisations as one
"""
