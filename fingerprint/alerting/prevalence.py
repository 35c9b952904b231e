"""How much less urgent an alert is because others show the same: a roll-out surprises many at once, and is read once.

Example:
    >>> weighed(48, [Shown("program version", 10.0, others=7), Shown("read or write", 2.0)])
    (33, 7)

*Sharing* is so many other principals that at least half of the alert's surprise, in nats, is shown by as many of them, or more,
within a day (a weighted median). Only what a roll-out brings is counted: actions, parameters, errors and tools. What is not:

- a place (network, address range, other account): one thief with many keys brings the same place to all of them. Where
  somebody else comes from the alert's strange place too, nothing is lowered at all;
- an action that serves an attacker by public mappings (`tactics`, all but mere looking): many do it when many keys are stolen;
- what is shared with an attack: as soon as one of those who show it is judged a true positive, nobody is excused by it.

From FEW others on, urgency falls by STEP for each doubling, by MOST at most and never below half. It is bounded because an
attacker may make noise to be shared: whoever is critical stays high, and the page shows both figures. No verdict ever changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fingerprint.features.encoding import FEATURES
from fingerprint.sources.active import SOURCE

WINDOW_SECONDS = 86_400  # seconds
MIN_OTHERS = 3  # other principals, from whom on it is no coincidence
MAX_COUNTED_OTHERS = 20  # are as many as are counted
URGENCY_PER_DOUBLING = 5.0  # of urgency, for each doubling of who shows it
MAX_REDUCTION = 20  # of urgency

FEATURE_LABELS = {feature.name: feature.label for feature in FEATURES}
SHARED_FEATURES = frozenset(
    FEATURE_LABELS[name] for name in ("action", "parameters", "error", "program", "version")
)
PLACE_FEATURES = frozenset(FEATURE_LABELS[name] for name in ("network", "address", "target"))
CALL_FEATURES = frozenset(FEATURE_LABELS[name] for name in ("action", "parameters"))
DISCOVERY_TACTIC = "Discovery"


class SurprisingValue(NamedTuple):
    """A surprise of an alert, and how many other principals show it within a day."""

    feature: str
    surprise: float  # nats
    other_principals: int = 0
    value: str = ""
    is_attack: bool = False  # one of them was judged a true positive


def counts_towards_prevalence(feature: str) -> bool:
    """Whether it is asked who else shows it."""
    return feature in SHARED_FEATURES or feature in PLACE_FEATURES


def adjust_urgency(urgency: int, surprises: Sequence[SurprisingValue]) -> tuple[int, int]:
    """The urgency that is shown, and how many others share at least half of what surprises."""
    others = _weighted_median_others(surprises)
    one_thief = any(each.other_principals for each in surprises if each.feature in PLACE_FEATURES)
    return (urgency if one_thief else reduce_urgency(urgency, others)), others


def reduce_urgency(urgency: int, others: int) -> int:
    """An urgency that is shared with so many other principals."""
    if others < MIN_OTHERS:
        return urgency
    by = min(MAX_REDUCTION, round(URGENCY_PER_DOUBLING * math.log2(others + 1)))
    return max(urgency - by, math.ceil(urgency / 2))


def _weighted_median_others(surprises: Sequence[SurprisingValue]) -> int:
    """The weighted median of how many others show each; that of nothing is nobody."""
    left = sum(each.surprise for each in surprises) / 2
    for each in sorted(surprises, key=_excusing_others, reverse=True):
        left -= each.surprise
        if left <= 0:
            return _excusing_others(each)
    return 0


def _excusing_others(value: SurprisingValue) -> int:
    """How many others excuse a surprise."""
    if value.feature not in SHARED_FEATURES or value.is_attack or _is_attack_tactic(value):
        return 0
    return value.other_principals


def _is_attack_tactic(value: SurprisingValue) -> bool:
    if value.feature not in CALL_FEATURES:
        return False
    service, _, call = value.value.partition(":")
    return bool(set(SOURCE.tactics_of(service, call.partition("(")[0])) - {DISCOVERY_TACTIC})
