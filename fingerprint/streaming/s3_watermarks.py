"""How far event time has come in a queue of many trails: the least of their latest event times.

Example:
    >>> trails = Trails(idle_seconds=900)
    >>> trails.come("trail/eu-west-1", np.array([100, 200]), arrived=1_000)
    array([100, 200])
    >>> trails.come("trail/us-east-1", np.array([150, 400]), arrived=1_001)     # it never goes back
    array([200, 200])

A *trail* is what one account writes of one region, object after object; objects of different trails come in any order, some
minutes apart. All times are ms since the epoch. What was silent for `idle_seconds` of arrivals is forgotten: nobody waits for
it, and memory holds the trails of now.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

NEVER = np.iinfo(np.int64).max


class Trails:
    """The latest event time of each trail, and when it was heard of last."""

    def __init__(self, idle_seconds: float) -> None:
        self.idle = int(idle_seconds * 1000)
        self.marks: dict[str, int] = {}
        self.heard: dict[str, int] = {}
        self.now = 0  # the latest arrival
        self.low = 0  # the watermark; 0 while none is known

    def come(self, trail: str, marks: Longs, arrived: int) -> Longs:
        """The watermark at each of N records of one trail. `marks` (N,): its latest event time up to each, ascending; 0 while
        it has none that is believed, and then nobody waits for it."""
        self.now = max(self.now, arrived)
        self._forget_idle()
        others = min((mark for name, mark in self.marks.items() if name != trail), default=NEVER)
        least = np.minimum(np.where(marks > 0, marks, NEVER), others)
        low = np.maximum(np.where(least == NEVER, 0, least), self.low)
        if marks.any():
            self.marks[trail], self.heard[trail] = int(marks[-1]), self.now
            self.low = int(low[-1])
        return low

    def _forget_idle(self) -> None:
        for trail in [name for name, at in self.heard.items() if self.now - at > self.idle]:
            del self.marks[trail], self.heard[trail]
