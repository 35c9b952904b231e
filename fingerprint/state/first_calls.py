"""First calls: when a tool or a place that is not in a principal's history has become familiar.

Example:
    >>> first = FirstCalls()
    >>> first.familiar_age(value, interval, action)         # (N,) intervals since it came with a fourth call; negative before

A thief tries a key with one call, or two, and comes back an hour or a week later. So one call does not make a network usual;
`FAMILIAR_CALLS` do, an action once an interval: who works from a new place has made as many within its first hour.

The earliest calls are kept, in whatever order they come: where a batch is cut changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fingerprint.compute.arrays import Ints, Longs, Placement, identity_placement, lexsort, namespace
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable, rank_in_run, run_starts

CALLS = ("first", "second", "third", "fourth")  # columns: an interval, and bits of an action, as one number
FAMILIAR_CALLS = len(CALLS)
ACTION_BITS = 20
NEVER = np.int64(np.iinfo(np.int32).max) << ACTION_BITS  # of a call that has not come


@dataclass
class FirstCalls:
    """The earliest calls with a value, by the hash of owner and value: `calls` (M,), each column later than the one before."""

    placement: Placement = identity_placement
    calls: SortedTable = field(init=False)

    def __post_init__(self) -> None:
        self.calls = SortedTable.empty(
            keep_first=True, place=self.placement, **dict.fromkeys(CALLS, np.int64)
        )

    def familiar_age(self, values: Hashes, interval: Ints, action: Hashes) -> Ints:
        """Return how many intervals ago values became familiar (N,), negative where they are not yet, and keep the calls.

        A value is the hash of its owner and itself; `action` (N,) are the codes of what was called with it.
        """
        if not len(values):  # as in most calls for one event, of which this would be a tenth
            return interval
        bits = (action & np.uint64((1 << ACTION_BITS) - 1)).astype(np.int64)
        self._keep(values, interval.astype(np.int64) << ACTION_BITS | bits)
        familiar = self.calls.get(values, CALLS[-1], missing=NEVER) >> ACTION_BITS
        age: Ints = interval - familiar.astype(np.int32)
        return age

    def _keep(self, values: Hashes, call: Longs) -> None:
        """Keep the earliest of these calls (N,) and those that are kept, each once."""
        xp, order = namespace(values), lexsort(call, values)
        values, call = values[order], call[order]
        fresh = xp.ones(len(values), bool)
        fresh[1:] = (values[1:] != values[:-1]) | (call[1:] != call[:-1])
        values, call = values[fresh], call[fresh]
        rank, distinct = rank_in_run(values), values[run_starts(values)]
        early = rank < FAMILIAR_CALLS
        kept = [self.calls.get(distinct, name, missing=NEVER) for name in CALLS]
        both = xp.full((len(distinct), 2 * FAMILIAR_CALLS), NEVER, np.int64)
        both[xp.searchsorted(distinct, values[early]), rank[early]] = call[early]
        both[:, FAMILIAR_CALLS:] = xp.stack(kept, axis=1)
        both = xp.sort(both, axis=1)
        both[:, 1:][both[:, 1:] == both[:, :-1]] = NEVER
        earliest = xp.sort(both, axis=1)[:, :FAMILIAR_CALLS]
        new = kept[0] == NEVER
        self.calls.add(distinct[new], **dict(zip(CALLS, earliest[new].T, strict=True)))
        for name, before, now in zip(CALLS, kept, earliest.T, strict=True):
            moved = ~new & (now != before)
            self.calls.overwrite(distinct[moved], name, now[moved])

    def first_interval(self) -> Ints:
        """Return the interval of the earliest call with each value that is kept, (M,)."""
        earliest: Ints = (self.calls.compact()[1][CALLS[0]] >> ACTION_BITS).astype(np.int32)
        return earliest
