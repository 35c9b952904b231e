"""How far event time has come, said by many sources at once: the least of their watermarks.

Example:
    >>> sources = Sources(expected=2, idle_seconds=120)
    >>> sources.come(["raw/0", "raw/1"], codes, marks, arrived)     # after each message: the least watermark, in ms
    array([0, 0, 1767225600000])

A *source* is a partition of the raw topic, before its records were keyed anew. Each message says how far its source had come
(its *mark*). A source that was silent for `idle_seconds` while others spoke is not waited for; nor, after as long, is one that
never spoke. Time is told by the messages' own arrival, not by a clock, so that reading the same messages again gives the same
answer. Only when nothing at all arrives does a clock help out (`pass_time`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

MAX_MATRIX_CELLS = 1 << 21  # sources x messages looked at in one go: 16 MB
NO_WATERMARK = np.iinfo(np.int64).max


class WatermarkTracker:
    """Marks and last arrivals of the sources of one partition, in ms since the epoch. 0: unknown."""

    def __init__(self, expected: int = 1, idle_seconds: float = 120.0) -> None:
        self.expected, self.idle_ms = expected, int(idle_seconds * 1000)
        self.names: list[str] = []
        self.watermarks = np.empty(0, np.int64)
        self.last_arrivals = np.empty(0, np.int64)
        self.first_arrival = 0  # when the first message arrived
        self.low_watermark = 0  # the least watermark so far: it never goes back, but for `bound`

    def advance(
        self, names: Sequence[str], codes: NDArray[Any], watermarks: Longs, arrival_times: Longs
    ) -> Longs:
        """The least watermark after each of N messages. `codes` (N,) say which of `names` is the source of each."""
        places = np.array([self._index_of(name) for name in names], np.int64)
        if not len(codes):
            return np.empty(0, np.int64)
        self.first_arrival = self.first_arrival or int(arrival_times[0])
        arrival_times = np.maximum.accumulate(np.maximum(arrival_times, self.last_arrivals.max(initial=0)))
        step = max(MAX_MATRIX_CELLS // len(self.names), 1)
        parts = [slice(start, start + step) for start in range(0, len(codes), step)]
        return np.concatenate(
            [
                self._advance_batch(places[codes[part]], watermarks[part], arrival_times[part])
                for part in parts
            ]
        )

    def advance_clock(self, now: int) -> int:
        """The least watermark at `now`, when nothing more is there to be read. Once all sources are idle, event time goes on
        at the pace of the clock."""
        if not len(self.names):
            return self.low_watermark
        awake = (now - self.last_arrivals <= self.idle_ms) & (self.watermarks > 0)
        if awake.any():
            return self.low_watermark
        gone_by = now - int(self.last_arrivals.max()) - self.idle_ms
        self.low_watermark = max(
            self.low_watermark, int(self.watermarks.max()) + gone_by if self.watermarks.any() else 0
        )
        return self.low_watermark

    def clamp(self, now: int, latest: int) -> None:
        """Take back what a wrong clock has done: arrivals after `now`, marks and watermark past `most`, ms. A clock that was
        ahead for a while would otherwise make everything late until it is caught up with."""
        self.last_arrivals, self.first_arrival = (
            np.minimum(self.last_arrivals, now),
            min(self.first_arrival, now),
        )
        self.watermarks, self.low_watermark = (
            np.minimum(self.watermarks, latest),
            min(self.low_watermark, latest),
        )

    def copy(self) -> WatermarkTracker:
        """Return a tracker that stands where this one does, and goes its own way from there."""
        return WatermarkTracker.from_metadata(self.as_metadata(), self.expected, self.idle_ms / 1000)

    def forget(self, name: str) -> None:
        """A source that speaks elsewhere from now on."""
        kept = np.array([each != name for each in self.names], bool)
        self.names = [each for each in self.names if each != name]
        self.watermarks, self.last_arrivals = self.watermarks[kept], self.last_arrivals[kept]

    def as_metadata(self) -> dict[str, Any]:
        """What must survive, fit for JSON; `from_facts` takes it back."""
        by_name = {
            name: [int(mark), int(heard)]
            for name, mark, heard in zip(self.names, self.watermarks, self.last_arrivals, strict=True)
        }
        return {"sources": by_name, "since": self.first_arrival, "low": self.low_watermark}

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any], expected: int, idle_seconds: float) -> WatermarkTracker:
        sources = cls(expected, idle_seconds)
        sources.names = list(metadata["sources"])
        sources.watermarks, sources.last_arrivals = (
            np.array([pair[place] for pair in metadata["sources"].values()], np.int64) for place in (0, 1)
        )
        sources.first_arrival, sources.low_watermark = int(metadata["since"]), int(metadata["low"])
        return sources

    def _index_of(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
            self.watermarks, self.last_arrivals = (
                np.append(self.watermarks, 0),
                np.append(self.last_arrivals, 0),
            )
        return self.names.index(name)

    def _advance_batch(self, source: Longs, watermarks: Longs, arrival_times: Longs) -> Longs:
        """(N,) each; matrices are (S, N)."""
        spoke = np.arange(len(self.names))[:, None] == source
        mark = np.maximum.accumulate(np.where(spoke, watermarks, 0), axis=1)
        mark = np.maximum(mark, self.watermarks[:, None])
        heard = np.maximum(
            np.maximum.accumulate(np.where(spoke, arrival_times, 0), axis=1), self.last_arrivals[:, None]
        )
        self.watermarks, self.last_arrivals = mark[:, -1], heard[:, -1]
        counts = (mark > 0) & (arrival_times - heard <= self.idle_ms)
        least = np.where(counts, mark, NO_WATERMARK).min(axis=0)
        waiting = ((heard > 0).sum(axis=0) < self.expected) & (
            arrival_times - self.first_arrival <= self.idle_ms
        )
        low = np.maximum.accumulate(
            np.where(
                waiting | (least == NO_WATERMARK), self.low_watermark, np.maximum(least, self.low_watermark)
            )
        )
        self.low_watermark = int(low[-1])
        return low
