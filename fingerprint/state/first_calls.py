"""First calls: the time at which a tool or place that is new to a principal became familiar.

Example:
    >>> first = FirstCalls()
    >>> first.familiar_age(value, interval, action)         # (N,) intervals since the fourth call with it; negative before

A thief tries a key with one call, or two, and comes back an hour or a week later. So one call does not make a network usual, but
`FAMILIAR_CALLS` calls do, where an action counts once an interval. A person who works from a new place makes them within an hour.

The earliest calls are kept, whatever the order in which they come, so batches may be cut anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fingerprint.compute.arrays import Ints, Longs, Placement, identity_placement, lexsort, namespace
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable, rank_in_run, run_starts

# Columns of calls: interval << ACTION_BITS | bits of the action's code
CALLS = ("first", "second", "third", "fourth")
FAMILIAR_CALLS = len(CALLS)
ACTION_BITS = 20
NEVER = np.int64(np.iinfo(np.int32).max) << ACTION_BITS  # a call that has not come


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
        """Keep calls with values (N,), and return how many intervals ago each value became familiar, negative if it is not.

        A value is the hash of an owner and its tool or place; `action` (N,) are the codes of the actions called with it.
        """
        if not len(values):  # as for most single events, where the rest would take a tenth of the time
            return interval
        bits = (action & np.uint64((1 << ACTION_BITS) - 1)).astype(np.int64)
        self._keep(values, interval.astype(np.int64) << ACTION_BITS | bits)
        familiar = self.calls.get(values, CALLS[-1], missing=NEVER) >> ACTION_BITS
        age: Ints = interval - familiar.astype(np.int32)
        return age

    def _keep(self, values: Hashes, call: Longs) -> None:
        """Keep the earliest FAMILIAR_CALLS distinct calls with each value, of the kept ones and these (N,)."""
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
