"""The company an event keeps: what else was surprising of its principal in the same interval.

Example:
    >>> company = Company()
    >>> company.add(principal, interval, codes, surprise)      # (N,), (N,), (N, F), (N, F)
    >>> company.of(principal, interval)                        # nats, (N,)
    >>> company.at_home(principal, interval)                   # whether it worked from where it usually does, (N,)

A stolen key is rarely used once. An intruder with the victim's own tool and network still does several things the victim
never did, each of them no stranger than what a curious colleague does now and then; together they are. So each distinct
surprising value counts once in its interval, and the sum only grows: where a batch is cut, and in which order events
come, changes nothing once the interval is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Place, firsts, lexsort, like, namespace, stays
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable
from fingerprint.estimators.autoencoder import ODD, place_of
from fingerprint.features.encoding import GIVEN, IS_BIN, NAMES

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]

# (F,) values only, and no parameters: a new action has new parameters too
COUNTED = ~IS_BIN & (np.arange(len(GIVEN)) != NAMES.index("parameters"))


@dataclass
class Company:
    """`values`: nats by (principal, interval, feature, value); `sums`: their sums by (principal, interval), in float64, where
    a sum of float32 from ODD up is exact whatever the order; `home`: the (principal, interval) with an event from a usual
    place."""

    place: Place = stays
    values: SortedTable = field(init=False)
    sums: SortedTable = field(init=False)
    home: SortedTable = field(init=False)

    def __post_init__(self) -> None:
        empty = partial(SortedTable.empty, place=self.place)
        self.values = empty(keep_first=True, nats=np.float32, interval=np.int32)
        self.sums = empty(nats=np.float64, first=np.int32)
        self.home = empty(keep_first=True, interval=np.int32)

    def add(self, principal: Hashes, interval: Ints, codes: Hashes, surprise: Floats) -> None:
        """Count the surprising values of events; a value that came before counts by the larger of its surprises."""
        xp = namespace(surprise)
        near = place_of(surprise) < ODD
        self.home.add(_owner(principal[near], interval[near]), interval=interval[near])
        row, column = xp.nonzero((surprise >= ODD) & like(COUNTED, surprise))
        owner = _owner(principal[row], interval[row])
        keys = hashing.within(hashing.within(owner, column.astype(np.uint64)), codes[row, column])
        nats = surprise[row, column]
        order = lexsort(-nats, keys)
        distinct, first = xp.unique(keys[order], return_index=True)
        row, owner, nats = row[order][first], owner[order][first], nats[order][first]
        before = self.values.get(distinct, "nats", missing=0)
        more = nats > before
        self.values.put(distinct[more], "nats", nats[more])
        self.values.add(distinct[more], nats=nats[more], interval=interval[row][more])
        self._grow(owner[more], (nats.astype(np.float64) - before)[more], interval[row][more])

    def _grow(self, owner: Hashes, nats: NDArray[np.float64], interval: Ints) -> None:
        fresh = firsts(owner) & ~self.sums.has(owner)
        self.sums.add(owner, nats=nats, first=namespace(owner).where(fresh, interval, 0))

    def of(self, principal: Hashes, interval: Ints) -> Floats:
        """What was surprising of each event's principal in its interval so far, in nats: (N,)."""
        return self.sums.get(_owner(principal, interval), "nats", missing=0).astype(np.float32)

    def at_home(self, principal: Hashes, interval: Ints) -> NDArray[np.bool_]:
        """Whether each event's principal did anything from a usual place in its interval so far: (N,)."""
        return self.home.has(_owner(principal, interval))

    def forget(self, before: int) -> None:
        """Drop intervals before this one."""
        for table, column in ((self.values, "interval"), (self.sums, "first"), (self.home, "interval")):
            old = table.settle()[1][column] < before
            if old.any():
                table.keep(~old)


def _owner(principal: Hashes, interval: Ints) -> Hashes:
    return hashing.within(principal, interval.astype(np.uint64))
