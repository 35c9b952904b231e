"""How good is a detector? Figures from judged events with known attacks, beside simpler methods on them.

The parts, each in its file:

    rows         the events of a trial: codes, principals, and the alert that each event would belong to
    baselines    simpler methods, scored on the same rows
    metrics      what is reported, with its formulas
"""
