"""Action sequence: the recent actions of each principal by second, and the actions that already had a vote.

Example:
    >>> sequence = ActionSequence()
    >>> sequence.add(SeenActions(principal, second, action))       # (N,) each
    >>> sequence.seen(principals)                                  # distinct, (S,) each
    >>> sequence.add_votes(keys, interval)                         # of principals and actions, (N,) each
    >>> sequence.has_earlier_vote(keys, interval)                  # (N,)

Both are sets: their content does not depend on the order in which actions come, on repeats, or on how batches are cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Ints, Placement, identity_placement, lexsort, namespace, to_device_of
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable
from fingerprint.estimators.sequence import SeenActions


@dataclass
class ActionSequence:
    """Two tables with keys in hash buckets.

    - `actions`: distinct actions by principal and second
    - `votes`: the first interval with a vote on each principal and action
    """

    placement: Placement = identity_placement
    actions: SortedTable = field(init=False)
    votes: SortedTable = field(init=False)

    def __post_init__(self) -> None:
        self.actions = SortedTable.empty(
            keep_first=True, place=self.placement, principal=np.uint64, second=np.int64, action=np.uint64
        )
        self.votes = SortedTable.empty(keep_first=True, place=self.placement, interval=np.int32)

    def add(self, done: SeenActions) -> None:
        """Keep actions, (N,) each."""
        keys = hashing.combine(hashing.combine(done.principal, done.second.astype(np.uint64)), done.action)
        self.actions.add(keys, **done._asdict())

    def seen(self, principals: Hashes) -> SeenActions:
        """Return the kept actions of principals (N,), and of others in the same hash buckets, in no particular order."""
        first = hashing.bucket_start(
            to_device_of(namespace(principals).unique(principals), self.actions.old[0])
        )
        distinct = namespace(first).unique(first)
        _, _, columns = self.actions.between(distinct, hashing.bucket_end(distinct))
        return SeenActions(**columns)

    def add_votes(self, keys: Hashes, interval: Ints) -> None:
        """Keep the first interval with a vote on each key (N,)."""
        if not len(keys):
            return
        order = lexsort(interval, keys)
        distinct, first = namespace(keys).unique(keys[order], return_index=True)
        earliest = interval[order][first]
        moved = self.votes.get(distinct, "interval", missing=-1) > earliest
        self.votes.overwrite(distinct[moved], "interval", earliest[moved])
        self.votes.add(distinct, interval=earliest)

    def has_earlier_vote(self, keys: Hashes, interval: Ints) -> NDArray[np.bool_]:
        """Return whether each key (N,) had a vote in an interval before the given one (N,)."""
        earlier: NDArray[np.bool_] = (
            self.votes.get(keys, "interval", missing=np.iinfo(np.int32).max) < interval
        )
        return earlier

    def expire(self, before_second: int, before_interval: int) -> None:
        """Drop actions from before a second, and votes from before an interval."""
        for table, column, before in (
            (self.actions, "second", before_second),
            (self.votes, "interval", before_interval),
        ):
            old = table.compact()[1][column] < before
            if old.any():
                table.retain(~old)
