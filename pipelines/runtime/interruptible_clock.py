"""A clock for programs with long waits: a wait raises an exception as soon as the program is asked to end.

Example:
    >>> with shutdown_requested() as ended:
    ...     clock = InterruptibleClock(SystemClock(), ended)
    ...     clock.sleep(3600)                  # StopRequested, a moment after SIGTERM
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from fingerprint.core.ports.clock import Clock

TICK_SECONDS = 0.2  # longest delay between SIGTERM and the end of a wait


class StopRequested(Exception):
    """Raised when the program was asked to end."""


class InterruptibleClock:
    """A clock whose waits raise StopRequested as soon as the program is asked to end."""

    def __init__(self, clock: Clock, stop_requested: Callable[[], bool]) -> None:
        self._clock, self._stop_requested = clock, stop_requested

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        return self._clock.now()

    def sleep(self, seconds: float) -> None:
        """Wait; raise StopRequested as soon as the program is asked to end."""
        while seconds > 0:
            self.raise_if_stopped()
            self._clock.sleep(min(seconds, TICK_SECONDS))
            seconds -= TICK_SECONDS
        self.raise_if_stopped()

    def progress(self, stage: str, done: int, of: int = 0) -> None:
        """Raise StopRequested if the program was asked to end; programs call it as their progress, between two steps."""
        self.raise_if_stopped()

    def raise_if_stopped(self) -> None:
        """Raise StopRequested if the program was asked to end."""
        if self._stop_requested():
            raise StopRequested
