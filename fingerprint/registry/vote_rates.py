"""Vote rates: the share of harmless held-out events of each kind of principal that each detector votes for.

Example:
    >>> voted, events = np.array([True, False]), np.array([30.0, 70.0])
    >>> rates = rates_by_kind(voted, events, np.array(["person", "person"]), np.array([1, 2], np.uint64))
    >>> rates
    {'person': {'events': 100, 'days': 1.7, 'share': 0.3}}
    >>> round(least_share(rates["person"]), 2)
    0.02

A vote that passes everything of a kind filters nothing there, so a manifest keeps these rates, `bank show` prints them, and the
promotion gate compares them with the share that a person set.
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

CONFIDENCE = 0.99  # that a rate is at least `least_share`


class KindVotes(NamedTuple):
    """A kind of principal, how many held-out events it has, and the share that each detector votes for, None for no opinion."""

    kind: str
    events: int
    shares: list[float | None]


def rates_by_kind(
    voted: NDArray[Any], events: NDArray[Any], kind: NDArray[Any], principal_day: Hashes
) -> RatesByKind:
    """Return the rate of each kind of principal, from held-out rows that stand for so many `events`: (N,) each.

    `voted` says which rows are voted for, or which share of a row's events is.

    `events` is how many there are, `share` the part that is voted for, `days` how many equally busy days of a principal (hashed
    in `principal_day`) they are worth: sum(n)^2 / sum(n^2) of the events n of each. The events of one such day are hardly
    independent, so they count as one observation.
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
    """Return the share that a rate is at least, with CONFIDENCE: the lower end of its Wilson interval, by its `days`."""
    days = max(rate["days"], 1.0)
    return wilson_interval(rate["share"] * days, days, NormalDist().inv_cdf(CONFIDENCE))[0]


def votes_by_kind(rates: Mapping[str, RatesByKind]) -> list[KindVotes]:
    """Return a row for each kind of principal, in the order of their names, from the rates by detector.

    Where a detector has an opinion on fewer events than another, `events` is the larger number.
    """
    rows = []
    for kind in sorted({kind for each in rates.values() for kind in each}):
        rates_of_kind = [each.get(kind) for each in rates.values()]
        events = max(int(rate["events"]) for rate in rates_of_kind if rate)
        rows.append(KindVotes(kind, events, [rate["share"] if rate else None for rate in rates_of_kind]))
    return rows
