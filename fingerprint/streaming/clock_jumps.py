"""A clock that jumps ahead is not believed at once: what it closes cannot be opened again.

Example:
    >>> jumps = ClockJumps(SystemClock())
    >>> jumps.believed_time()                     # None while a jump has not lasted for SETTLING_SECONDS
    datetime.datetime(2026, 1, 15, 14, 10, tzinfo=datetime.timezone.utc)

Where no message is left to be read, intervals close by the clock, and what is older than its memory is forgotten. One look at a
clock that is weeks ahead would forget nearly all. So the wall clock is held against the monotonic one, which no one can set. A
machine that slept jumps too, and rightly: a jump that lasts is believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from fingerprint.core.ports.clock import Clock
from fingerprint.sources.arrival import CLOCK_TOLERANCE_SECONDS

SETTLING_SECONDS = 600.0  # that a clock keeps time after a jump before it is believed


class _Jump(NamedTuple):
    """A clock's lead (seconds) over the monotonic one after a jump, and when it was first seen there (monotonic seconds)."""

    lead: float
    since: float


class ClockJumps:
    """Tell whether the wall clock may be believed. Used by one thread."""

    def __init__(self, clock: Clock, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.monotonic = clock, monotonic
        # seconds before the monotonic clock, as last believed
        self.lead = clock.now().timestamp() - monotonic()
        self.jump: _Jump | None = None

    def believed_time(self) -> datetime | None:
        """Return the time; None where the clock has jumped ahead, by more than events may be, until that has lasted."""
        now, at = self.clock.now(), self.monotonic()
        lead = now.timestamp() - at
        if lead - self.lead > CLOCK_TOLERANCE_SECONDS:
            if self.jump is None or abs(lead - self.jump.lead) > CLOCK_TOLERANCE_SECONDS:
                self.jump = _Jump(lead, at)
            if at - self.jump.since < SETTLING_SECONDS:
                return None
        self.lead, self.jump = lead, None
        return now

    def describe(self) -> str:
        """Return in a sentence by how much the clock jumped, and what follows."""
        hours = (self.jump.lead - self.lead) / 3600 if self.jump else 0.0
        return (
            f"it jumped ahead by {hours:,.1f} hours: nothing is closed by it until it has kept time "
            f"for {SETTLING_SECONDS / 60:.0f} minutes"
        )
