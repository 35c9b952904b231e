"""Pending events: measured events that may still get a verdict, kept until their interval closes.

Example:
    >>> pending = PendingEvents()
    >>> pending.add(batch)
    >>> dropped = pending.limit(200_000, priority)           # drops the least unusual events of intervals with too many
    >>> closed = pending.take_closed(first_open_interval)         # an EventBatch; None without events of closed intervals
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Floats, occurrence_index, to_host, unique_inverse
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.state.event_batch import EventBatch, concat_batches

MAX_PARTS = 16  # batches before they are joined: every step reads each of them
MAX_EVENTS_PER_PRINCIPAL = 5_000  # events of a principal in one interval: the most unusual ones


class PendingEvents:
    """Batches of events on the host, in the order in which they were measured; MAX_PARTS at most."""

    def __init__(self, parts: Iterable[EventBatch] = ()) -> None:
        self.parts = [part for part in parts if len(part)]

    def __len__(self) -> int:
        """Return the number of pending events."""
        return sum(map(len, self.parts))

    def add(self, batch: EventBatch) -> None:
        """Keep events pending."""
        self.parts.append(batch)
        if len(self.parts) > MAX_PARTS:
            self.joined()

    def joined(self) -> EventBatch:
        """Join all batches, at least one, into one, and return it."""
        self.parts = [concat_batches(self.parts)]
        return self.parts[0]

    def rows_of(self, principals: Hashes) -> list[tuple[EventBatch, NDArray[np.intp]]]:
        """Return the batches that have events of some of these principals, each with the indices of these events."""
        wanted = np.sort(to_host(principals))
        rows = [find_sorted(wanted, part.principal)[1].nonzero()[0] for part in self.parts]
        return [pair for pair in zip(self.parts, rows, strict=True) if len(pair[1])]

    def take_closed(self, end: int) -> EventBatch | None:
        """Remove the events of intervals before `end` and return them; None if there are none."""
        closed = [part.interval < end for part in self.parts]
        taken = [part.take(over) for part, over in zip(self.parts, closed, strict=True) if over.any()]
        self.parts = [
            part.take(~over) if over.any() else part
            for part, over in zip(self.parts, closed, strict=True)
            if not over.all()
        ]
        return concat_batches(taken) if taken else None

    def limit(self, most: int, priority: Callable[[EventBatch], Floats]) -> int:
        """Keep at most `most` events of an interval, shared fairly by principals; return how many were dropped.

        The most unusual event of each principal is kept first, by `priority` (N,), then the second ones, and so on, up to
        MAX_EVENTS_PER_PRINCIPAL. The way batches are cut does not change which are kept, because further events can only worsen
        the rank of an event.
        """
        if not self._exceeds(most):
            return 0
        batch = concat_batches(self.parts)
        order = np.lexsort((hashing.hash_strings(batch.frame["event_id"]), -priority(batch)))
        place = np.empty(len(batch), np.intp)
        place[order] = occurrence_index(hashing.in_interval(batch.principal, batch.interval)[order])
        order = order[np.argsort(place[order], kind="stable")]
        kept = place < MAX_EVENTS_PER_PRINCIPAL
        kept[order] &= occurrence_index(batch.interval[order]) < most
        if not kept.all():
            self.parts = [batch.take(kept)]
        return len(batch) - int(kept.sum())

    def _exceeds(self, most: int) -> bool:
        """Return whether an interval has more pending events than allowed, of all principals or of one."""
        if len(self) <= min(most, MAX_EVENTS_PER_PRINCIPAL):
            return False
        interval = np.concatenate([part.interval for part in self.parts])
        names = hashing.in_interval(np.concatenate([part.principal for part in self.parts]), interval)
        of_interval, of_principal = (np.bincount(unique_inverse(each)[0]).max() for each in (interval, names))
        return bool(of_interval > most or of_principal > MAX_EVENTS_PER_PRINCIPAL)
