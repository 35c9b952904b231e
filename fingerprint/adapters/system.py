"""The time of day, and waiting for it.

Example:
    >>> SystemClock().now().tzinfo
    datetime.timezone.utc
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """The machine's own."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))
