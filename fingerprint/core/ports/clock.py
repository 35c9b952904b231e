"""The clock as a port, so that tests and replays set the time."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The time of the wall clock. Detection does not use it: it uses event time alone."""

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait this many seconds."""
        ...
