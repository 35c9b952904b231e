"""A look over a history before anything is learned: its span, who is in it, when its attacks were.

Example:
    >>> overview = Overview(known)
    >>> for events in history.chunks():
    ...     overview.see(events)
    >>> overview.last - overview.first
    2419183
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.evaluation.labels import find_label_rows

Seconds = NDArray[np.int64]


class HistoryOverview:
    """What is noted of the chunks of a history, oldest first. Memory grows with attack events and principals alone."""

    def __init__(self, known: pd.DataFrame) -> None:
        self.labels = known
        self.first = self.last = 0  # seconds from the epoch
        self.principals: Hashes = np.empty(0, np.uint64)  # distinct
        self.attacks = pd.Series(dtype=np.int64)  # seconds of each labelled event that is there, by its hash
        self.victims: Hashes = np.empty(0, np.uint64)  # whose credentials they were done with, distinct

    def update(self, events: pd.DataFrame) -> None:
        """The next chunk: events with entities."""
        seconds = np.asarray(events["event_time"].astype("int64"), np.int64) // 1_000_000
        principal = hashing.hash_strings(events["principal"])
        self.first = self.first or int(seconds[0])
        self.last = max(self.last, int(seconds[-1]))
        self.principals = np.union1d(self.principals, principal)
        self._update_attacks(hashing.hash_strings(events["event_id"]), seconds, principal)

    def _update_attacks(self, event: Hashes, seconds: Seconds, principal: Hashes) -> None:
        mine = find_label_rows(event, self.labels) >= 0
        if mine.any():
            more = pd.Series(seconds[mine], index=event[mine])
            self.attacks = pd.concat([self.attacks, more]).groupby(level=0).min()
            self.victims = np.union1d(self.victims, principal[mine])
