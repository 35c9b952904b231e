"""Interval amounts: how often each principal has called each action in each interval so far.

Example:
    >>> amounts = IntervalAmounts()
    >>> amounts.add(principal, interval, action)                 # (N,) each
    >>> amounts.count(principal, interval, action)               # (N,) calls of the event's action in its interval so far
    >>> amounts.count(principal, interval, action, 24)           # (N,) in the 24 intervals that end with its own

A count only grows while its interval fills, so the nats made of it (`estimators.amounts`) never fall. Once the interval is over,
it does not depend on the order of events or on how batches are cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Ints, Placement, identity_placement, is_first_occurrence, namespace
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable


@dataclass
class IntervalAmounts:
    """Calls by principal, interval and action: `counts` has the `calls` and the `interval` by the hash of the three."""

    placement: Placement = identity_placement
    counts: SortedTable = field(init=False)

    def __post_init__(self) -> None:
        self.counts = SortedTable.empty(place=self.placement, calls=np.int32, interval=np.int32)

    def add(self, principal: Hashes, interval: Ints, action: Hashes, calls: Ints | None = None) -> None:
        """Count N events of one call each, or N rows that stand for `calls` (N,)."""
        if not len(principal):
            return
        keys, xp = _amount_key(principal, interval, action), namespace(principal)
        # The table sums columns: add an interval once
        fresh = is_first_occurrence(keys) & ~self.counts.has(keys)
        of_row = xp.ones(len(keys), np.int32) if calls is None else calls
        self.counts.add(keys, calls=of_row, interval=xp.where(fresh, interval, 0))

    def count(self, principal: Hashes, interval: Ints, action: Hashes, intervals: int = 1) -> Ints:
        """Return the calls so far of each event's action by its principal (N,), in the `intervals` that end with its own."""
        xp = namespace(principal)
        if not len(principal):
            return xp.empty(0, np.int32)
        each = interval[:, None] - xp.arange(intervals, dtype=np.int32)
        keys = _amount_key(principal[:, None], each, action[:, None])  # (N, intervals)
        calls = self.counts.get(keys.ravel(), "calls", missing=0)
        summed: Ints = calls.reshape(keys.shape).sum(axis=1, dtype=np.int32)
        return summed

    def expire(self, before: int) -> None:
        """Drop intervals before this one."""
        old = self.counts.compact()[1]["interval"] < before
        if old.any():
            self.counts.retain(~old)


def calls_before(counted: IntervalAmounts, day: int, late: int) -> Callable[[Hashes, Ints, Hashes], Ints]:
    """Return a function of principals, intervals and actions (N,) that returns their calls (N,) on the day before each interval.

    The day is the last `day` intervals before the `late` ones that late records may still change.
    """
    return lambda principal, interval, action: counted.count(principal, interval - 1 - late, action, day)


def _amount_key(principal: Hashes, interval: Ints, action: Hashes) -> Hashes:
    return hashing.combine(hashing.in_interval(principal, interval), action)
