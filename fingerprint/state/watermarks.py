"""Track event time as the least watermark of many sources.

Example:
    >>> tracker = WatermarkTracker(expected=2, idle_seconds=120)
    >>> tracker.advance(["raw/0", "raw/1"], codes, watermarks, arrival_times)     # after each message: the least, in ms
    array([0, 0, 1767225600000])

A *source* is a partition of the raw topic, before its records were keyed by principal. Each message has the watermark of its
source. A source that was idle for `idle_seconds` while others were not is left out, and so is, after the same time, an expected
source that never sent a message. Time is the arrival time of messages, not a clock, so that reading the same messages again gives
the same answer. Only while no messages arrive does a clock advance event time (`advance_clock`).

Names of sources are written by producers to the events topic, so only `index_key` of each is kept, and of at most MAX_SOURCES.
Above that, idle sources are forgotten, and further new ones count together as one source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Longs
from fingerprint.core.sanitize import index_key

MAX_SOURCES = 1_000  # of one partition
OTHER_SOURCES = "other sources"  # the name of all sources beyond MAX_SOURCES
MAX_MATRIX_CELLS = 1 << 21  # sources x messages in one step: 16 MB
NO_WATERMARK = np.iinfo(np.int64).max


class WatermarkTracker:
    """Watermarks and last arrivals of the sources of one partition, in ms since 1970; 0 if unknown."""

    def __init__(self, expected: int = 1, idle_seconds: float = 120.0) -> None:
        self.expected, self.idle_ms = expected, int(idle_seconds * 1000)
        self.places: dict[str, int] = {}  # index of each source in the arrays, by name
        self.watermarks = np.empty(0, np.int64)
        self.last_arrivals = np.empty(0, np.int64)
        self.first_arrival = 0  # when the first message arrived
        self.low_watermark = 0  # the result so far; it never goes back, except in `clamp`

    def advance(
        self, names: Sequence[str], codes: NDArray[Any], watermarks: Longs, arrival_times: Longs
    ) -> Longs:
        """Return the least watermark in ms after each of N messages; `codes` (N,) are the indices of sources in `names`."""
        if not len(codes):
            return np.empty(0, np.int64)
        places = self._find_places([index_key(name) for name in names], int(arrival_times[0]))
        self.first_arrival = self.first_arrival or int(arrival_times[0])
        arrival_times = np.maximum.accumulate(np.maximum(arrival_times, self.last_arrivals.max(initial=0)))
        step = max(MAX_MATRIX_CELLS // len(self.places), 1)
        parts = [slice(start, start + step) for start in range(0, len(codes), step)]
        return np.concatenate(
            [
                self._advance_batch(places[codes[part]], watermarks[part], arrival_times[part])
                for part in parts
            ]
        )

    def advance_clock(self, now: int) -> int:
        """Return the least watermark at `now` (ms), when there are no messages left to read.

        Once all sources are idle, event time advances at the pace of the clock.
        """
        if not self.places:
            return self.low_watermark
        active = (now - self.last_arrivals <= self.idle_ms) & (self.watermarks > 0)
        if active.any():
            return self.low_watermark
        elapsed = now - int(self.last_arrivals.max()) - self.idle_ms
        self.low_watermark = max(
            self.low_watermark, int(self.watermarks.max()) + elapsed if self.watermarks.any() else 0
        )
        return self.low_watermark

    def clamp(self, now: int, latest: int) -> None:
        """Undo the effect of a wrong clock: limit arrivals to `now` and watermarks to `latest`, ms.

        Otherwise a clock that was ahead for a while would make all events late until real time catches up.
        """
        self.last_arrivals = np.minimum(self.last_arrivals, now)
        self.first_arrival = min(self.first_arrival, now)
        self.watermarks = np.minimum(self.watermarks, latest)
        self.low_watermark = min(self.low_watermark, latest)

    def copy(self) -> WatermarkTracker:
        """Return an independent copy."""
        return WatermarkTracker.from_metadata(self.as_metadata(), self.expected, self.idle_ms / 1000)

    def forget(self, name: str) -> None:
        """Remove a source whose messages go to another partition from now on."""
        self._keep(np.array([each != index_key(name) for each in self.places], bool))

    def as_metadata(self) -> dict[str, Any]:
        """Return the state for a checkpoint, fit for JSON; `from_metadata` restores it."""
        by_name = {
            name: [int(mark), int(heard)]
            for name, mark, heard in zip(self.places, self.watermarks, self.last_arrivals, strict=True)
        }
        return {"sources": by_name, "since": self.first_arrival, "low": self.low_watermark}

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any], expected: int, idle_seconds: float) -> WatermarkTracker:
        """Return the tracker that `as_metadata` described."""
        sources = cls(expected, idle_seconds)
        sources.places = {name: place for place, name in enumerate(metadata["sources"])}
        sources.watermarks, sources.last_arrivals = (
            np.array([pair[place] for pair in metadata["sources"].values()], np.int64) for place in (0, 1)
        )
        sources.first_arrival, sources.low_watermark = int(metadata["since"]), int(metadata["low"])
        return sources

    def _find_places(self, names: Sequence[str], now: int) -> Longs:
        """Return the indices of sources (n,). New sources get one each while there is room, then all that of OTHER_SOURCES."""
        if len(self.places.keys() | set(names)) > MAX_SOURCES:
            self._forget_idle(now)
        for name in names:
            if name not in self.places and len(self.places) < MAX_SOURCES:
                self.places[name] = len(self.places)
        if any(name not in self.places for name in names):
            self.places.setdefault(OTHER_SOURCES, len(self.places))
        added = np.zeros(len(self.places) - len(self.watermarks), np.int64)
        self.watermarks = np.append(self.watermarks, added)
        self.last_arrivals = np.append(self.last_arrivals, added)
        return np.array([self.places.get(name, self.places.get(OTHER_SOURCES)) for name in names], np.int64)

    def _forget_idle(self, now: int) -> None:
        """Remove sources that are idle at `now` (ms), except that with the highest watermark, which `advance_clock` needs."""
        now = max(now, int(self.last_arrivals.max(initial=0)))
        if self.places:
            kept = now - self.last_arrivals <= self.idle_ms
            kept[np.argmax(self.watermarks)] = True
            self._keep(kept)

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        """Remove the sources that are not in the mask `kept` (S,)."""
        names = [name for name, keep in zip(self.places, kept, strict=True) if keep]
        self.places = {name: place for place, name in enumerate(names)}
        self.watermarks, self.last_arrivals = self.watermarks[kept], self.last_arrivals[kept]

    def _advance_batch(self, source: Longs, watermarks: Longs, arrival_times: Longs) -> Longs:
        """Return the least watermark after each message, from columns (N,); matrices are (S, N)."""
        is_source = np.arange(len(self.places))[:, None] == source
        mark = np.maximum.accumulate(np.where(is_source, watermarks, 0), axis=1)
        mark = np.maximum(mark, self.watermarks[:, None])
        heard = np.maximum(
            np.maximum.accumulate(np.where(is_source, arrival_times, 0), axis=1), self.last_arrivals[:, None]
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
