"""Interval surprise: the sum of the surprises of a principal in an interval.

Example:
    >>> surprises = IntervalSurprise()
    >>> surprises.add(principal, interval, codes, surprise)      # (N,), (N,), (N, F), (N, F)
    >>> surprises.total(principal, interval)                     # nats, (N,)
    >>> surprises.from_usual_place(principal, interval)          # whether it was active from a usual place, (N,)

A stolen key is rarely used once. An intruder with the victim's own tool and network still does several things that the victim
never did. Each of them is no stranger than what a curious colleague does now and then; together they are. So each distinct
surprising value counts once in its interval. The sum only grows, and once the interval is over it does not depend on the order of
events or on how batches are cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import (
    Floats,
    Ints,
    Placement,
    identity_placement,
    is_first_occurrence,
    lexsort,
    namespace,
    to_device_of,
)
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable, run_starts
from fingerprint.estimators.autoencoder import RECHECK_THRESHOLD, place_surprise
from fingerprint.features.encoding import FEATURE_NAMES, FEATURE_SET, GIVEN_FEATURE, IS_BIN

# (F,) not bins, and not features that are judged given the action, because a new action has new parameters and resources
COUNTED_FEATURES = ~IS_BIN & (FEATURE_NAMES.index("action") != GIVEN_FEATURE)


@dataclass
class IntervalSurprise:
    """Sums of surprise by principal and interval.

    - `values`: nats by (principal, interval, feature, value)
    - `sums`: their sums by (principal, interval). In float64, sums of float32 numbers of at least `RECHECK_THRESHOLD` are exact,
      so they do not depend on the order.
    - `usual_place`: each (principal, interval) with an event from a usual place. Calls that services make for the principal do
      not count, because they come from the service's place.
    """

    placement: Placement = identity_placement
    values: SortedTable = field(init=False)
    sums: SortedTable = field(init=False)
    usual_place: SortedTable = field(init=False)

    def __post_init__(self) -> None:
        empty = partial(SortedTable.empty, place=self.placement)
        self.values = empty(keep_first=True, nats=np.float32, interval=np.int32)
        self.sums = empty(nats=np.float64, first=np.int32)
        self.usual_place = empty(keep_first=True, interval=np.int32)

    def add(self, principal: Hashes, interval: Ints, codes: Hashes, surprise: Floats) -> None:
        """Count the surprising values of events (N,); a value that came before counts with the larger of its surprises."""
        xp = namespace(surprise)
        near = (place_surprise(surprise) < RECHECK_THRESHOLD) & FEATURE_SET.is_from_address(codes)
        self.usual_place.add(hashing.in_interval(principal[near], interval[near]), interval=interval[near])
        row, column = xp.nonzero((surprise >= RECHECK_THRESHOLD) & to_device_of(COUNTED_FEATURES, surprise))
        if not len(row):
            return
        owner = hashing.in_interval(principal[row], interval[row])
        keys = hashing.combine(hashing.combine(owner, column.astype(np.uint64)), codes[row, column])
        nats = surprise[row, column]
        order = lexsort(-nats, keys)
        first = order[run_starts(keys[order])]
        distinct, row, owner, nats = keys[first], row[first], owner[first], nats[first]
        before = self.values.get(distinct, "nats", missing=0)
        more = nats > before
        self.values.overwrite(distinct[more], "nats", nats[more])
        self.values.add(distinct[more], nats=nats[more], interval=interval[row][more])
        self._add_to_sums(owner[more], (nats.astype(np.float64) - before)[more], interval[row][more])

    def _add_to_sums(self, owner: Hashes, nats: NDArray[np.float64], interval: Ints) -> None:
        fresh = is_first_occurrence(owner) & ~self.sums.has(owner)
        self.sums.add(owner, nats=nats, first=namespace(owner).where(fresh, interval, 0))

    def total(self, principal: Hashes, interval: Ints) -> Floats:
        """Return the sum of surprises of each event's principal in its interval so far, in nats: (N,)."""
        return self.sums.get(hashing.in_interval(principal, interval), "nats", missing=0).astype(np.float32)

    def from_usual_place(self, principal: Hashes, interval: Ints) -> NDArray[np.bool_]:
        """Return whether each event's principal was active from a usual place in its interval so far: (N,)."""
        return self.usual_place.has(hashing.in_interval(principal, interval))

    def expire(self, before: int) -> None:
        """Drop intervals before this one."""
        for table, column in (
            (self.values, "interval"),
            (self.sums, "first"),
            (self.usual_place, "interval"),
        ):
            old = table.compact()[1][column] < before
            if old.any():
                table.retain(~old)
