"""Events -> votes and verdicts: the event batch, the detectors, inference, the quorum and the scorer."""
