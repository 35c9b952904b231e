"""A clock that moves only when someone waits.

Example:
    >>> clock = ManualClock(datetime(2026, 3, 2, tzinfo=UTC))
    >>> clock.sleep(1.5)
    >>> clock.seconds
    1.5
"""

from __future__ import annotations

from datetime import datetime, timedelta


class ManualClock:
    """The time is what was waited after `start`. Implements `ports.clock.Clock`."""

    def __init__(self, start: datetime) -> None:
        self.start = self.time = start

    def now(self) -> datetime:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return (self.time - self.start).total_seconds()
