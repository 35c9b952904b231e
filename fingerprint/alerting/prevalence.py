"""Prevalence: an alert is less urgent where many other principals show the same surprise, as in a roll-out.

Example:
    >>> adjust_urgency(48, [SurprisingValue("program version", 10.0, 7), SurprisingValue("read or write", 2.0)])
    (33, 7)

Prevalence is the number of other principals that show at least half of the alert's surprise, in nats, within a day (a weighted
median). Only what a roll-out brings is counted: actions, parameters, errors and tools. Not counted are:

- a place (network, address range, other account): one thief with many keys brings the same place to all of them. Where another
  principal comes from the alert's unusual place too, urgency is not lowered at all;
- an action that serves an attacker by public mappings (all but discovery): many do it when many keys are
  stolen;
- a value that an attack shows: as soon as one of the principals that share it has a true positive, it excuses no other.

From MIN_OTHERS others on, urgency falls by URGENCY_PER_DOUBLING for each doubling, by MAX_REDUCTION at most and never below half.
It is bounded because an attacker may make noise to be shared: a critical alert stays high, and the page shows both figures. Nor
does it fall below the floor of a grave call that was new (`impact.urgency_floor`): twenty principals whose trails are stopped on
one day are no roll-out, and if they are, the floor is all that is left of the alert's impact. No verdict changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from fingerprint.core.alert import ORDER_FEATURE
from fingerprint.core.time_range import DAY_SECONDS

WINDOW_SECONDS = DAY_SECONDS  # seconds
MIN_OTHERS = 3  # other principals; fewer may be a coincidence
MAX_COUNTED_OTHERS = 20  # counting ends here
URGENCY_PER_DOUBLING = 5.0  # urgency, for each doubling of the other principals
MAX_REDUCTION = 20  # of urgency

SHARED_FEATURES = ("action", "parameters", "error", "program", "version")
NETWORK_FEATURES = ("network", "address")  # the wider one first
PLACE_FEATURES = (*NETWORK_FEATURES, "target")
CALL_FEATURES = ("action", "parameters")


class SurprisingValue(NamedTuple):
    """A surprising value of an alert, and how many other principals show it within a day."""

    feature: str
    surprise: float  # nats
    other_principals: int = 0
    value: str = ""
    is_attack: bool = False  # one of them was judged a true positive


@cache
def feature_labels(names: tuple[str, ...]) -> frozenset[str]:
    """Return the labels of features, by which alerts name them."""
    # late: with it come NumPy and pandas, and reading a queue needs neither
    from fingerprint.features.encoding import FEATURES

    return frozenset(feature.label for feature in FEATURES if feature.name in names)


def counts_towards_prevalence(feature: str) -> bool:
    """Return whether other principals are counted for a feature."""
    return feature in feature_labels(SHARED_FEATURES) | feature_labels(PLACE_FEATURES)


def adjust_urgency(urgency: int, surprises: Sequence[SurprisingValue], floor: int = 0) -> tuple[int, int]:
    """Return the adjusted urgency, and how many other principals share at least half of the surprise.

    What lowers it stops at `floor` (`impact.urgency_floor`).
    """
    others = _weighted_median_others(surprises)
    one_thief = any(
        each.other_principals for each in surprises if each.feature in feature_labels(PLACE_FEATURES)
    )
    lowered = urgency if one_thief else reduce_urgency(urgency, others)
    return max(lowered, min(floor, urgency)), others


def reduce_urgency(urgency: int, others: int) -> int:
    """Return an urgency lowered for so many other principals."""
    if others < MIN_OTHERS:
        return urgency
    reduction = min(MAX_REDUCTION, round(URGENCY_PER_DOUBLING * math.log2(others + 1)))
    return max(urgency - reduction, math.ceil(urgency / 2))


def _weighted_median_others(surprises: Sequence[SurprisingValue]) -> int:
    """Return the median over values, weighted by surprise, of how many others show each; 0 without values.

    The order of actions has no weight: its nats are another detector's, and no one else shows it.
    """
    weighed = [each for each in surprises if each.feature != ORDER_FEATURE]
    left = sum(each.surprise for each in weighed) / 2
    for each in sorted(weighed, key=_excusing_others, reverse=True):
        left -= each.surprise
        if left <= 0:
            return _excusing_others(each)
    return 0


def _excusing_others(value: SurprisingValue) -> int:
    """Return how many other principals excuse a value."""
    if value.feature not in feature_labels(SHARED_FEATURES) or value.is_attack or _is_attack_tactic(value):
        return 0
    return value.other_principals


def _is_attack_tactic(value: SurprisingValue) -> bool:
    if value.feature not in feature_labels(CALL_FEATURES):
        return False
    from fingerprint.sources.active import SOURCE  # late, as the features are

    service, _, call = value.value.partition(":")
    return SOURCE.serves_attackers(service, call.partition("(")[0])
