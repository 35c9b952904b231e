"""Vote rates: the share of harmless held-out events of each kind of principal that each detector votes for.

Example:
    >>> voted, events = np.array([True, False]), np.array([30.0, 70.0])
    >>> rates = rates_by_kind(voted, events, np.array(["person", "person"]), np.array([1, 2], np.uint64))
    >>> rates
    {'person': {'events': 100, 'days': 1.7, 'share': 0.3}}
    >>> round(least_share(rates["person"]), 2)
    0.02

A detector that votes for all events of a kind filters nothing there. So a manifest keeps these rates, `bank show` prints them,
and the promotion gate compares them with the share that is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.hashing import Hashes
from fingerprint.core.overview import wilson_interval

Rate = Mapping[str, float]
RatesByKind = dict[str, dict[str, float]]

CONFIDENCE = 0.99  # probability that a rate is at least `least_share`


class KindVotes(NamedTuple):
    """A kind of principal, the number of its held-out events, and the share each detector votes for (None for no opinion)."""

    kind: str
    events: int
    shares: list[float | None]


def rates_by_kind(
    voted: NDArray[Any], events: NDArray[Any], kind: NDArray[Any], principal_day: Hashes
) -> RatesByKind:
    """Return the rate of each kind of principal, from held-out rows that stand for `events` events: (N,) each.

    `voted` says whether each row is voted for, or which share of its events. `principal_day` are hashes of principal and day.

    A rate has the number of its `events`, the `share` that is voted for, and the number of `days`: how many equally busy days of
    principals the events are worth, sum(n)^2 / sum(n^2) over the events n of each principal and day. The events of one such day
    are hardly independent, so they count as one observation.
    """
    kinds, of_kind = np.unique(np.asarray(kind, object).astype(str), return_inverse=True)
    _, first, of_unit = np.unique(principal_day, return_index=True, return_inverse=True)
    each = np.bincount(of_unit, events)
    squares = np.bincount(of_kind[first], each**2, len(kinds))
    total = np.bincount(of_kind, events, len(kinds))
    share = np.bincount(of_kind, events * voted, len(kinds)) / np.maximum(total, 1)
    days = total**2 / np.maximum(squares, 1)
    return {
        str(name): {
            "events": int(total[at]),
            "days": round(float(days[at]), 1),
            "share": round(float(share[at]), 4),
        }
        for at, name in enumerate(kinds)
    }


def least_share(rate: Rate) -> float:
    """Return a lower bound of a rate's share, with CONFIDENCE: the lower end of the Wilson interval for its `days`."""
    days = max(rate["days"], 1.0)
    return wilson_interval(rate["share"] * days, days, NormalDist().inv_cdf(CONFIDENCE))[0]


def votes_by_kind(rates: Mapping[str, RatesByKind]) -> list[KindVotes]:
    """Return a row for each kind of principal, sorted by name, from the rates by detector.

    If detectors have opinions on different numbers of events, `events` is the largest.
    """
    rows = []
    for kind in sorted({kind for each in rates.values() for kind in each}):
        rates_of_kind = [each.get(kind) for each in rates.values()]
        events = max(int(rate["events"]) for rate in rates_of_kind if rate)
        rows.append(KindVotes(kind, events, [rate["share"] if rate else None for rate in rates_of_kind]))
    return rows
