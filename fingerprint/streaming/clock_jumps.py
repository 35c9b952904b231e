"""Clock jumps: a wall clock that jumps ahead is not believed at once, because an interval that it closes stays closed.

Example:
    >>> jumps = ClockJumps(SystemClock())
    >>> jumps.believed_time()                     # None while a jump has not lasted for SETTLING_SECONDS
    datetime.datetime(2026, 1, 15, 14, 10, tzinfo=datetime.timezone.utc)

When no message is left to read, intervals close by the clock and old state expires. One reading of a clock that is weeks ahead
would expire nearly everything. So the wall clock is compared with the monotonic clock, which cannot be set. The clock of a
machine that slept jumps as well, and rightly: a jump that lasts is believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from fingerprint.core.ports.clock import Clock
from fingerprint.sources.arrival import CLOCK_TOLERANCE_SECONDS

SETTLING_SECONDS = 600.0  # a clock is believed once it has kept time for so long after a jump


class _Jump(NamedTuple):
    """A jump: the wall clock's lead over the monotonic clock (seconds), and when it was first seen (monotonic seconds)."""

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
        """Return the time; None after the clock jumped ahead by more than events may be ahead, until the jump has lasted."""
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
        """Return a sentence that says how far the clock jumped and what follows from it."""
        hours = (self.jump.lead - self.lead) / 3600 if self.jump else 0.0
        return (
            f"it jumped ahead by {hours:,.1f} hours: nothing is closed by it until it has kept time "
            f"for {SETTLING_SECONDS / 60:.0f} minutes"
        )
