"""Terms of an alert's rank left out: its urgency by rarity alone, or by its most unusual and its gravest action alone.

Example:
    >>> [(alert.urgency, urgency_without(alert, IMPACT), urgency_without(alert, FURTHER)) for alert in alerts]
    [(71, 48, 66)]

Which alerts there are stays the same; only their order changes.
"""

from __future__ import annotations

import numpy as np

from fingerprint.alerting import impact, rarity
from fingerprint.core.alert import Alert
from fingerprint.detection.detectors import calibrated_detectors

RANK = "urgency"  # what variants are named after, as those of a detector are after it
IMPACT, FURTHER = "impact", "further actions"
RANK_TERMS = {
    IMPACT: "what the actions can do; without it rarity alone",
    FURTHER: "actions beside the most unusual one, and beside the gravest one",
}


def urgency_without(alert: Alert, term: str) -> int:
    """Return the urgency (0 to 100) that an alert would have without one of RANK_TERMS. Raises KeyError for another term."""
    return {IMPACT: _rarity_alone, FURTHER: _strongest_alone}[term](alert)


def _rarity_alone(alert: Alert) -> int:
    return alert.rarity


def _strongest_alone(alert: Alert) -> int:
    names = calibrated_detectors(alert.events[0].scores) if alert.events else ()
    z = [event.scores[name] for event in alert.events for name in names]
    strongest = max((each for each in z if each is not None), default=-np.inf)
    nats = rarity.alert_nats(np.array([strongest]), [""])
    return impact.combined_urgency(nats, alert.impact_of[:1], rarity.URGENCY_CAP[alert.level])
