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

CELLS = 1 << 21  # sources x messages looked at in one go: 16 MB
NEVER = np.iinfo(np.int64).max


class Sources:
    """Marks and last arrivals of the sources of one partition, in ms since the epoch. 0: unknown."""

    def __init__(self, expected: int = 1, idle_seconds: float = 120.0) -> None:
        self.expected, self.idle = expected, int(idle_seconds * 1000)
        self.names: list[str] = []
        self.marks = np.empty(0, np.int64)
        self.heard = np.empty(0, np.int64)
        self.since = 0  # when the first message arrived
        self.low = 0  # the least watermark so far: it never goes back, but for `bound`

    def come(self, names: Sequence[str], codes: NDArray[Any], marks: Longs, arrived: Longs) -> Longs:
        """The least watermark after each of N messages. `codes` (N,) say which of `names` is the source of each."""
        places = np.array([self._place(name) for name in names], np.int64)
        if not len(codes):
            return np.empty(0, np.int64)
        self.since = self.since or int(arrived[0])
        arrived = np.maximum.accumulate(np.maximum(arrived, self.heard.max(initial=0)))
        step = max(CELLS // len(self.names), 1)
        parts = [slice(start, start + step) for start in range(0, len(codes), step)]
        return np.concatenate([self._come(places[codes[part]], marks[part], arrived[part]) for part in parts])

    def pass_time(self, now: int) -> int:
        """The least watermark at `now`, when nothing more is there to be read. Once all sources are idle, event time goes on
        at the pace of the clock."""
        if not len(self.names):
            return self.low
        awake = (now - self.heard <= self.idle) & (self.marks > 0)
        if awake.any():
            return self.low
        gone_by = now - int(self.heard.max()) - self.idle
        self.low = max(self.low, int(self.marks.max()) + gone_by if self.marks.any() else 0)
        return self.low

    def bound(self, now: int, most: int) -> None:
        """Take back what a wrong clock has done: arrivals after `now`, marks and watermark past `most`, ms. A clock that was
        ahead for a while would otherwise make everything late until it is caught up with."""
        self.heard, self.since = np.minimum(self.heard, now), min(self.since, now)
        self.marks, self.low = np.minimum(self.marks, most), min(self.low, most)

    def forget(self, name: str) -> None:
        """A source that speaks elsewhere from now on."""
        kept = np.array([each != name for each in self.names], bool)
        self.names = [each for each in self.names if each != name]
        self.marks, self.heard = self.marks[kept], self.heard[kept]

    def as_facts(self) -> dict[str, Any]:
        """What must survive, fit for JSON; `from_facts` takes it back."""
        by_name = {
            name: [int(mark), int(heard)]
            for name, mark, heard in zip(self.names, self.marks, self.heard, strict=True)
        }
        return {"sources": by_name, "since": self.since, "low": self.low}

    @classmethod
    def from_facts(cls, facts: dict[str, Any], expected: int, idle_seconds: float) -> Sources:
        sources = cls(expected, idle_seconds)
        sources.names = list(facts["sources"])
        sources.marks, sources.heard = (
            np.array([pair[place] for pair in facts["sources"].values()], np.int64) for place in (0, 1)
        )
        sources.since, sources.low = int(facts["since"]), int(facts["low"])
        return sources

    def _place(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
            self.marks, self.heard = np.append(self.marks, 0), np.append(self.heard, 0)
        return self.names.index(name)

    def _come(self, source: Longs, marks: Longs, arrived: Longs) -> Longs:
        """(N,) each; matrices are (S, N)."""
        spoke = np.arange(len(self.names))[:, None] == source
        mark = np.maximum.accumulate(np.where(spoke, marks, 0), axis=1)
        mark = np.maximum(mark, self.marks[:, None])
        heard = np.maximum(np.maximum.accumulate(np.where(spoke, arrived, 0), axis=1), self.heard[:, None])
        self.marks, self.heard = mark[:, -1], heard[:, -1]
        counts = (mark > 0) & (arrived - heard <= self.idle)
        least = np.where(counts, mark, NEVER).min(axis=0)
        waiting = ((heard > 0).sum(axis=0) < self.expected) & (arrived - self.since <= self.idle)
        low = np.maximum.accumulate(
            np.where(waiting | (least == NEVER), self.low, np.maximum(least, self.low))
        )
        self.low = int(low[-1])
        return low
