"""Prevalence: an alert is less urgent where many other principals show the same surprise, as in a roll-out.

Example:
    >>> adjust_urgency(48, [SurprisingValue("program version", 10.0, 7), SurprisingValue("read or write", 2.0)])
    (33, 7)

Prevalence is the number of other principals that show at least half of the alert's surprise, in nats, within a day (a weighted
median). Counted are the values that a roll-out brings: actions, parameters, errors and tools. Not counted are:

- a place (network, address range, other account): one thief with many keys brings the same place to all of them. If another
  principal shows the alert's unusual place, too, urgency is not lowered at all;
- an action that public mappings say serves attackers (all but discovery): many principals call it when many keys are stolen;
- a value of an attack: once one of the principals that show it has a true positive, it excuses no other.

From MIN_OTHERS others on, urgency falls by URGENCY_PER_DOUBLING for each doubling, at most by MAX_REDUCTION and never below half.
It is bounded because an attacker may make noise in order to share it: a critical alert stays high, and the page shows both
figures. Urgency never falls below the floor of a new grave call (`impact.urgency_floor`): twenty principals whose trails are
stopped on one day are no roll-out. No verdict changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from fingerprint.core.alert import ORDER_FEATURE
from fingerprint.core.time_range import DAY_SECONDS

WINDOW_SECONDS = DAY_SECONDS  # within which others show the same value
MIN_OTHERS = 3  # other principals; fewer may be a coincidence
MAX_COUNTED_OTHERS = 20  # counting ends here
URGENCY_PER_DOUBLING = 5.0  # urgency, for each doubling of the other principals
MAX_REDUCTION = 20  # of urgency

SHARED_FEATURES = ("action", "parameters", "error", "program", "version")
NETWORK_FEATURES = ("network", "address")  # the wider one first
PLACE_FEATURES = (*NETWORK_FEATURES, "target")
CALL_FEATURES = ("action", "parameters")


class SurprisingValue(NamedTuple):
    """A surprising value of an alert, and the number of other principals that show it within a day."""

    feature: str
    surprise: float  # nats
    other_principals: int = 0
    value: str = ""
    is_attack: bool = False  # a principal that shows it has a true positive


@cache
def feature_labels(names: tuple[str, ...]) -> frozenset[str]:
    """Return the labels of features: the names that alerts use."""
    # Imported late: it needs NumPy and pandas, and reading a queue needs neither.
    from fingerprint.features.encoding import FEATURES

    return frozenset(feature.label for feature in FEATURES if feature.name in names)


def counts_towards_prevalence(feature: str) -> bool:
    """Return whether other principals are counted for a feature."""
    return feature in feature_labels(SHARED_FEATURES) | feature_labels(PLACE_FEATURES)


def adjust_urgency(urgency: int, surprises: Sequence[SurprisingValue], floor: int = 0) -> tuple[int, int]:
    """Return the adjusted urgency, and how many other principals share at least half of the surprise.

    Urgency is not lowered below `floor` (`impact.urgency_floor`).
    """
    others = _weighted_median_others(surprises)
    one_thief = any(
        each.other_principals for each in surprises if each.feature in feature_labels(PLACE_FEATURES)
    )
    lowered = urgency if one_thief else reduce_urgency(urgency, others)
    return max(lowered, min(floor, urgency)), others


def reduce_urgency(urgency: int, others: int) -> int:
    """Return an urgency, lowered if `others` other principals show the same."""
    if others < MIN_OTHERS:
        return urgency
    reduction = min(MAX_REDUCTION, round(URGENCY_PER_DOUBLING * math.log2(others + 1)))
    return max(urgency - reduction, math.ceil(urgency / 2))


def _weighted_median_others(surprises: Sequence[SurprisingValue]) -> int:
    """Return the median number of others that show a value, weighted by surprise; 0 without values.

    Drivers of the order of actions are left out: their nats come from another detector, and no one else shows them.
    """
    weighed = [each for each in surprises if each.feature != ORDER_FEATURE]
    left = sum(each.surprise for each in weighed) / 2
    for each in sorted(weighed, key=_excusing_others, reverse=True):
        left -= each.surprise
        if left <= 0:
            return _excusing_others(each)
    return 0


def _excusing_others(value: SurprisingValue) -> int:
    """Return the number of other principals that excuse a value, 0 for a value that none can excuse."""
    if value.feature not in feature_labels(SHARED_FEATURES) or value.is_attack or _is_attack_tactic(value):
        return 0
    return value.other_principals


def _is_attack_tactic(value: SurprisingValue) -> bool:
    if value.feature not in feature_labels(CALL_FEATURES):
        return False
    from fingerprint.sources.active import SOURCE  # late, as the features are

    service, _, call = value.value.partition(":")
    return SOURCE.serves_attackers(service, call.partition("(")[0])
