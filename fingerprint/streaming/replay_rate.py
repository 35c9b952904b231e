"""Pace of a replay: a number of records a second, or a multiple of the speed at which they happened.

Example:
    >>> ReplayRate(rate=100).due_seconds(np.array([0, 0, 0]))
    array([0.  , 0.01, 0.02])
    >>> ReplayRate(speed=60).due_seconds(np.array([0, 60_000, 30_000]))
    array([0., 1., 1.])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fingerprint.core.errors import FingerprintError


class ReplayRate:
    """Computes when records are due, batch after batch; without rate and speed all are due at once."""

    def __init__(self, rate: float | None = None, speed: float | None = None) -> None:
        if rate is not None and speed is not None:
            raise FingerprintError("--rate and --speed are two answers to one question: give one of them")
        if any(each is not None and not 0 < each < float("inf") for each in (rate, speed)):
            raise FingerprintError("--rate and --speed must be above zero")
        self.rate, self.speed = rate, speed
        self.sent_records = 0
        self.first_time: int | None = None  # ms since the epoch
        self.latest_time = 0

    def due_seconds(self, times: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return when records are due (n,), in seconds after the start, ascending; their event times (n,) are in ms since 1970.

        CloudTrail delivers some records after later ones: such a record is due at once.
        """
        if not len(times):
            return np.zeros(0)
        numbers = np.arange(self.sent_records, self.sent_records + len(times))
        self.sent_records += len(times)
        if self.rate is not None:
            return numbers / self.rate
        if self.speed is None:
            return np.zeros(len(times))
        self.first_time = int(times[0]) if self.first_time is None else self.first_time
        reached = np.maximum.accumulate(np.maximum(times, max(self.latest_time, self.first_time)))
        self.latest_time = int(reached[-1])
        return (reached - self.first_time) / (1000 * self.speed)
