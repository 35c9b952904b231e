"""Arrival times: bound every clock that a record can move, by the arrival of the record and by the reader's own clock.

Example:
    >>> now = 1_767_225_600_000                                      # ms since 1970: 2026-01-01
    >>> arrival_times_ms(np.array([1_767_225_000_000, 0, 4_070_908_800_000]), now).tolist()
    [1767225000000, 1767225600000, 1767225600000]
    >>> future_dated_mask(np.array([now + 60_000, now + 3_600_000]), now).tolist()
    [False, True]

The author of a record chooses its event time. The timestamp of a Kafka message may also be the producer's
(`message.timestamp.type=CreateTime`), and some connectors copy the event time into it. So neither is believed if it is after the
clock of the reading process. An unknown arrival counts as now.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Longs
from fingerprint.core.errors import FingerprintError

Now = Callable[[], int]  # the reader's own clock, ms since 1970

CLOCK_TOLERANCE_SECONDS = 900  # a record may be dated so long after its arrival, because clocks differ
# Of a dead letter.
FUTURE_REASON = f"dated in the future: more than {CLOCK_TOLERANCE_SECONDS:,} s past its arrival"


def wall_clock_ms() -> int:
    """Return the machine's own time, ms since 1970."""
    return time.time_ns() // 1_000_000


def arrival_times_ms(timestamps: Longs, now: int) -> Longs:
    """Return the arrival of messages (n,) from their timestamps (n,), in ms: at most `now`, which also stands for 0 or less."""
    return np.minimum(np.where(timestamps > 0, timestamps, now), now)


def future_dated_mask(event_times: Longs, arrived_at: Longs | int) -> NDArray[np.bool_]:
    """Return a mask (n,) of the events that are dated after their arrival by more than clocks may differ; both are in ms."""
    return event_times > np.asarray(arrived_at) + CLOCK_TOLERANCE_SECONDS * 1000


def check_watermark(what: str, watermark: int, remedy: str, seconds: int = CLOCK_TOLERANCE_SECONDS) -> None:
    """Raise FingerprintError if a stored watermark (seconds since 1970) is more than `seconds` ahead of the clock.

    `what` names where it is stored, `remedy` says what to do about it.
    """
    now = wall_clock_ms()
    if watermark * 1000 > now + seconds * 1000:
        stored, clock = format_epoch_seconds(watermark), format_epoch_seconds(now // 1000)
        raise FingerprintError(
            f"{what} says that event time has come to {stored}, and this machine's clock says {clock}: "
            f"records dated in the future moved it, or the clock is wrong. {remedy}"
        )


def format_epoch_seconds(seconds: int) -> str:
    """Return seconds since 1970 as text, for any number: 2026-01-31T18:00:00Z."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:,} s after 1970"
