"""Programs around `fingerprint.evaluation`: simulate or read organisations, train on them, score them, and report figures.

evaluate        `fingerprint evaluate`: records with known attacks -> figures. Start here
organisations   the organisations that it simulates, and which seeds are for what
detectors       our detectors and quorums on the scored days
time_to_alert   how long attacks go on before an alert
newcomers       `evaluate --newcomers`: attacks by principals that are hours old
real_datasets   `evaluate --real`: the real sets of the project, each evaluated by what it can show
labelled_sets   real attacks after three histories; with masquerade, the tables of `evaluate --real`
masquerade      sessions of one principal with the identity of another, on real records
real_sets       folders of real records, read and evaluated
report          the figures as tables
backtest        a history that is learned in part and scored in part, with every z kept; the sample of the notebooks
"""
