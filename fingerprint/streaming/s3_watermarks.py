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

IDLE_TRAIL_SECONDS = 900.0  # of silence, after which the watermark no longer waits for a trail
Longs = NDArray[np.int64]

NO_WATERMARK = np.iinfo(np.int64).max


class TrailWatermarks:
    """The latest event time of each trail, and when it was heard of last."""

    def __init__(self, idle_seconds: float) -> None:
        self.idle_ms = int(idle_seconds * 1000)
        self.watermarks: dict[str, int] = {}
        self.last_arrivals: dict[str, int] = {}
        self.latest_arrival = 0  # the latest arrival
        self.low_watermark = 0  # the watermark; 0 while none is known

    def advance(self, trail: str, watermarks: Longs, arrival_time: int) -> Longs:
        """The watermark at each of N records of one trail. `marks` (N,): its latest event time up to each, ascending; 0 while
        it has none that is believed, and then nobody waits for it."""
        self.latest_arrival = max(self.latest_arrival, arrival_time)
        self._forget_idle()
        others = min((mark for name, mark in self.watermarks.items() if name != trail), default=NO_WATERMARK)
        least = np.minimum(np.where(watermarks > 0, watermarks, NO_WATERMARK), others)
        low = np.maximum(np.where(least == NO_WATERMARK, 0, least), self.low_watermark)
        if watermarks.any():
            self.watermarks[trail], self.last_arrivals[trail] = int(watermarks[-1]), self.latest_arrival
            self.low_watermark = int(low[-1])
        return low

    def _forget_idle(self) -> None:
        for trail in [
            name for name, at in self.last_arrivals.items() if self.latest_arrival - at > self.idle_ms
        ]:
            del self.watermarks[trail], self.last_arrivals[trail]
