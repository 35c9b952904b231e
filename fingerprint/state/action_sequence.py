"""Action sequence: what each principal did in which second of the last intervals.

Example:
    >>> sequence = ActionSequence()
    >>> sequence.add(SeenActions(principal, second, action))       # (N,) each
    >>> sequence.seen()                                            # distinct, (S,) each
    >>> sequence.expire(before_second)

A set: neither the order in which actions come, nor how often, nor where a batch is cut changes what is in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Placement, identity_placement
from fingerprint.compute.sorted_table import SortedTable
from fingerprint.estimators.sequence import SeenActions


@dataclass
class ActionSequence:
    """The distinct actions of principals by second, as a table of hash buckets."""

    placement: Placement = identity_placement
    actions: SortedTable = field(init=False)

    def __post_init__(self) -> None:
        self.actions = SortedTable.empty(
            keep_first=True, place=self.placement, principal=np.uint64, second=np.int64, action=np.uint64
        )

    def add(self, done: SeenActions) -> None:
        """Keep what was done, (N,) each."""
        keys = hashing.combine(hashing.combine(done.principal, done.second.astype(np.uint64)), done.action)
        self.actions.add(keys, **done._asdict())

    def seen(self) -> SeenActions:
        """Return what is kept, in no order that means anything."""
        _, columns = self.actions.compact()
        return SeenActions(**columns)

    def expire(self, before: int) -> None:
        """Drop what was done before a second."""
        old = self.actions.compact()[1]["second"] < before
        if old.any():
            self.actions.retain(~old)
