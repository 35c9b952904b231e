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
from fingerprint.sources.cloudtrail.attack_tactics import tactics_of

DAY = 86_400  # seconds
FEW = 3  # other principals, from whom on it is no coincidence
MANY = 20  # are as many as are counted
STEP = 5.0  # of urgency, for each doubling of who shows it
MOST = 20  # of urgency

LABEL = {feature.name: feature.label for feature in FEATURES}
TOGETHER = frozenset(LABEL[name] for name in ("action", "parameters", "error", "program", "version"))
PLACES = frozenset(LABEL[name] for name in ("network", "address", "target"))
CALLS = frozenset(LABEL[name] for name in ("action", "parameters"))
LOOKING = "Discovery"


class Shown(NamedTuple):
    """A surprise of an alert, and how many other principals show it within a day."""

    feature: str
    surprise: float  # nats
    others: int = 0
    seen: str = ""
    attack: bool = False  # one of them was judged a true positive


def is_counted(feature: str) -> bool:
    """Whether it is asked who else shows it."""
    return feature in TOGETHER or feature in PLACES


def weighed(urgency: int, surprises: Sequence[Shown]) -> tuple[int, int]:
    """The urgency that is shown, and how many others share at least half of what surprises."""
    others = _together(surprises)
    one_thief = any(each.others for each in surprises if each.feature in PLACES)
    return (urgency if one_thief else lowered(urgency, others)), others


def lowered(urgency: int, others: int) -> int:
    """An urgency that is shared with so many other principals."""
    if others < FEW:
        return urgency
    by = min(MOST, round(STEP * math.log2(others + 1)))
    return max(urgency - by, math.ceil(urgency / 2))


def _together(surprises: Sequence[Shown]) -> int:
    """The weighted median of how many others show each; that of nothing is nobody."""
    left = sum(each.surprise for each in surprises) / 2
    for each in sorted(surprises, key=_others, reverse=True):
        left -= each.surprise
        if left <= 0:
            return _others(each)
    return 0


def _others(shown: Shown) -> int:
    """How many others excuse a surprise."""
    if shown.feature not in TOGETHER or shown.attack or _serves_attackers(shown):
        return 0
    return shown.others


def _serves_attackers(shown: Shown) -> bool:
    if shown.feature not in CALLS:
        return False
    service, _, call = shown.seen.partition(":")
    return bool(set(tactics_of(service, call.partition("(")[0])) - {LOOKING})
