"""Quality of a detector: figures from scored events with known attacks, beside simpler methods on the same events.

labels              which attack session an event belongs to; where training ends; a history at a glance
event_table         the rows that peers are given, and the scored events of our detectors
quorums             several quorums over the same votes
metrics             what is reported, with its formulas; precision-recall curves
statistics          confidence intervals; figures of several organisations as one
delivery_floor      sessions found and false alerts above each urgency
severity            severities of attacks and of harmless alerts, by rarity alone and with impact
false_alert_causes  false alerts by the harmless anomaly behind them
time_to_alert       how long an attack goes on before there is an alert about it
newcomers           attacks by principals that the bank does not know
world_statistics    in what worlds differ: novelty, uneven hours, how much attacks resemble their victims
leakage_check       does the shape of a record betray an attack, which a benchmark must not do?
peers               simpler methods, scored on the same rows, each at its threshold
ranking             what peers count, and how their scores become a queue of alerts
dfencoder_peer      the published autoencoder, one a principal
"""
