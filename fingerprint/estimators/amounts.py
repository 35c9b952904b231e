"""Amounts: how many calls of an action an interval holds, against what its principal usually makes of it -> nats.

Example:
    >>> calls = interval_calls(principal, interval, action, events)         # by (principal, interval, action)
    >>> usual = usual_amounts(calls.of_action, calls.events)                # by (principal, action)
    >>> edge, slope = fit_amount_tail(largest)            # of each held-out interval: its largest log ratio
    >>> amount_nats(np.array([9.0, 212.0]), log_usual=np.log(4.0) + edge, slope=slope)
    array([0.1, 31.7])

Counts of calls are over-dispersed: the variance of an hour's calls is forty to four hundred times their mean, so neither a
Poisson distribution nor a standard deviation says how rare a burst is. What is steady is the ratio of a count to the root mean
square of the principal's own counts of that action, over the intervals in which it called it at all. That of few intervals is
shrunk towards `PRIOR_CALLS`, which stand for an action that the principal never called, too. The largest log ratio of an
interval has an exponential tail, the same for all principals of an organisation: its `edge` is passed by one held-out interval
in twenty, and `slope` is the mean excess over it.

Which events can carry an amount is known before the amount is (`UsualAmounts.carried`). An hour of 400 calls needs no 400
events that wait for its end, and where a batch is cut must not say which of them do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import Placement, namespace
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable
from fingerprint.estimators.tail_calibration import TAIL_SHARE
from fingerprint.features.vocabulary import Floats, Ints

PRIOR_CALLS, PRIOR_INTERVALS = (
    6.0,
    1.0,
)  # calls an interval before any was seen, and how many intervals that is worth
DEFAULT_EDGE, DEFAULT_SLOPE = 0.8, 0.3  # of log ratios, in a usual organisation ...
EDGE_PRIOR_INTERVALS, SLOPE_PRIOR_INTERVALS = (
    200,
    20,
)  # ... and how many intervals, and peaks over the edge, they are worth
NATS_PER_SLOPE = (
    3.0  # nats of excess that one slope beyond the edge is worth: about a slope of the excess itself
)
MAX_AMOUNT_NATS = 33.0
ALERTING_NATS = 15.0  # less opens no alert
CARRIERS = 4.0  # events, about, that carry an amount of ALERTING_NATS: one such amount in fifty has none

Arrays = dict[str, NDArray[Any]]


class IntervalCalls(NamedTuple):
    """Calls by (principal, interval, action), U of them.

    `of_action` (U,) is the key of principal and action, `events` (U,) how many calls, `place` (N,) which of them each row is in.
    """

    of_action: Hashes
    events: NDArray[np.float64]
    place: NDArray[np.intp]


def interval_calls(principal: Hashes, interval: Ints, action: Hashes, events: Floats) -> IntervalCalls:
    """Return the calls of each principal, interval and action, from rows that stand for so many `events`: (N,) each."""
    keys = action_key(principal, action)
    _, first, place = np.unique(
        hashing.hash_pair(keys, interval.astype(np.uint64)), return_index=True, return_inverse=True
    )
    return IntervalCalls(keys[first], np.bincount(place, events, len(first)).astype(np.float64), place)


def action_key(principal: Hashes, action: Hashes) -> Hashes:
    """Return the key of a principal and an action, in the principal's hash bucket: (N,)."""
    return hashing.combine(principal, action)


def usual_amounts(of_action: Hashes, events: NDArray[np.float64]) -> Arrays:
    """Return what is usual of each principal and action, from the calls of intervals (U,).

    Returns `key` (M,) sorted, `usual` (M,) the shrunk root mean square of calls an interval, and `most` (M,) the largest.
    """
    key, place = np.unique(of_action, return_inverse=True)
    intervals = np.bincount(place, minlength=len(key))
    squares = np.bincount(place, events**2, len(key))
    mean = (squares + PRIOR_INTERVALS * PRIOR_CALLS**2) / (intervals + PRIOR_INTERVALS)
    most = np.zeros(len(key))
    np.maximum.at(most, place, events)
    return {"key": key, "usual": np.sqrt(mean).astype(np.float32), "most": most.astype(np.float32)}


def fit_amount_tail(largest: Floats) -> tuple[float, float]:
    """Return edge and slope of log ratios, from the largest of each interval (U,)."""
    if not len(largest):
        return DEFAULT_EDGE, DEFAULT_SLOPE
    own = float(np.quantile(largest, 1 - TAIL_SHARE))
    edge = (len(largest) * own + EDGE_PRIOR_INTERVALS * DEFAULT_EDGE) / (len(largest) + EDGE_PRIOR_INTERVALS)
    peaks = np.sort(largest[largest > edge] - edge)
    slope = (peaks.sum() + SLOPE_PRIOR_INTERVALS * DEFAULT_SLOPE) / (len(peaks) + SLOPE_PRIOR_INTERVALS)
    return edge, float(slope)


def log_ratio(calls: Any, usual: Floats) -> Floats:
    """Return the log ratio of calls to the usual ones, (N,)."""
    xp = namespace(usual)
    out: Floats = xp.log(xp.maximum(calls, 1) / usual)
    return out


def amount_nats(calls: Any, log_usual: Any, slope: Any) -> Floats:
    """Return the nats of an interval's calls (N,): `log_usual` is the log of the usual calls plus the edge, (N,) or scalar.

    A slope of 0 marks an event that carries no amount.
    """
    xp = namespace(calls)
    beyond = xp.log(xp.maximum(calls, 1).astype(np.float32)) - log_usual
    slopes = xp.where(slope > 0, beyond / xp.where(slope > 0, slope, 1), 0)
    out: Floats = xp.clip(NATS_PER_SLOPE * slopes, 0, MAX_AMOUNT_NATS).astype(np.float32)
    return out


@dataclass(frozen=True)
class UsualAmounts:
    """The usual amounts of all principals of a bank, and the tail of their log ratios."""

    table: SortedTable
    edge: float
    slope: float

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], placement: Placement) -> UsualAmounts:
        """Return those of a bank, from its arrays by name (`amount.*`), where `placement` puts them; nothing is usual without."""
        own = mapped_arrays.part_arrays("amount", arrays)
        tail = np.asarray(own.pop("tail", [DEFAULT_EDGE, DEFAULT_SLOPE]), float).tolist()
        columns = own or usual_amounts(np.empty(0, np.uint64), np.empty(0))
        return cls.from_columns({name: placement(np.asarray(each)) for name, each in columns.items()}, *tail)

    @classmethod
    def from_columns(
        cls, columns: Arrays, edge: float = DEFAULT_EDGE, slope: float = DEFAULT_SLOPE
    ) -> UsualAmounts:
        """Return those of some columns (`usual_amounts`)."""
        table = SortedTable(columns["key"], {name: columns[name] for name in ("usual", "most")})
        return cls(table, edge, slope)

    def usual(self, principal: Hashes, action: Hashes) -> Floats:
        """Return the usual calls an interval of each principal and action, (N,)."""
        return self.table.get(action_key(principal, action), "usual", missing=PRIOR_CALLS)

    def most(self, principal: Hashes, action: Hashes) -> Floats:
        """Return the most calls in an interval of each principal and action, (N,); 0 for one that was never called."""
        return self.table.get(action_key(principal, action), "most", missing=0)

    def is_new(self, principal: Hashes, action: Hashes) -> NDArray[np.bool_]:
        """Return which principals never called the action with any effect, (N,)."""
        new: NDArray[np.bool_] = self.most(principal, action) == 0
        return new

    def carried(self, usual: Floats, event: Hashes) -> tuple[Floats, Floats]:
        """Return `log_usual` and `slope` of events (N,) by their usual calls and the hashes of their ids, for `amount_nats`.

        About CARRIERS of the calls that make an amount of ALERTING_NATS carry it; each does or does not by its id alone.
        """
        xp = namespace(usual)
        least = self.edge + self.slope * ALERTING_NATS / NATS_PER_SLOPE
        share = CARRIERS / (usual * float(np.exp(least)))
        carries = (event >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share
        return (xp.log(usual) + self.edge).astype(np.float32), xp.where(carries, self.slope, 0).astype(
            np.float32
        )
