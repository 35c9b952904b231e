"""A look over a history before anything is learned: its span, who is in it, when its attacks were, how it arrived.

Example:
    >>> overview = Overview(known)
    >>> rows = gather(overview.watch(history.chunks()), window_seconds=6 * 3600)
    >>> overview.last - overview.first
    2419183
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint import hashing
from fingerprint.evaluation.truth import find
from fingerprint.hashing import Hashes

Seconds = NDArray[np.int64]


class Overview:
    """What is noted while the chunks of a history go by, oldest first; they have the column `arrival`, the number of
    the record in the order in which all were read. Memory grows with attacks, principals and, 4 bytes each, arrivals."""

    def __init__(self, known: pd.DataFrame) -> None:
        self.known = known
        self.first = self.last = 0  # seconds from the epoch
        self.principals: Hashes = np.empty(0, np.uint64)  # distinct
        self.attacks = pd.Series(dtype=np.int64)  # seconds of each labelled event that is there, by its hash
        self.victims: Hashes = np.empty(0, np.uint64)  # who they were done as, distinct
        self._times = np.zeros(0, np.uint32)  # event time by arrival, seconds; 0 where there was no event

    def watch(self, chunks: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """The same chunks, looked at."""
        for events in chunks:
            self._note(events)
            yield events

    def clock(self, arrival: Seconds) -> Seconds:
        """How far the organisation's time had come when each record (N,) arrived: the latest event time until then."""
        return np.maximum.accumulate(self._times)[arrival].astype(np.int64)

    def _note(self, events: pd.DataFrame) -> None:
        seconds = np.asarray(events["event_time"].astype("int64"), np.int64) // 1_000_000
        self.first = self.first or int(seconds[0])
        self.last = max(self.last, int(seconds[-1]))
        principal = hashing.of(events["principal"])
        self.principals = np.union1d(self.principals, principal)
        self._note_attacks(hashing.of(events["event_id"]), seconds, principal)
        self._note_arrivals(events["arrival"].to_numpy(np.int64), seconds)

    def _note_attacks(self, event: Hashes, seconds: Seconds, principal: Hashes) -> None:
        mine = find(event, self.known) >= 0
        if mine.any():
            more = pd.Series(seconds[mine], index=event[mine])
            self.attacks = pd.concat([self.attacks, more]).groupby(level=0).min()
            self.victims = np.union1d(self.victims, principal[mine])

    def _note_arrivals(self, arrival: Seconds, seconds: Seconds) -> None:
        lacking = int(arrival.max()) + 1 - len(self._times)
        if lacking > 0:  # half as much again, so that it seldom grows
            self._times = np.append(self._times, np.zeros(lacking + len(self._times) // 2, np.uint32))
        self._times[arrival] = np.clip(seconds, 0, np.iinfo(np.uint32).max)
