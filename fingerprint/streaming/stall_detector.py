"""Partitions that lag and stand still: a stream's silent failure, for nothing is raised and nothing arrives.

Example:
    >>> watchdog, home = Watchdog(seconds=120), Partition("events", 0)
    >>> watchdog.stuck(0.0, {home: 7}, {home: 3})
    []
    >>> watchdog.stuck(130.0, {home: 7}, {home: 5})
    [Partition(topic='events', number=0)]
"""

from __future__ import annotations

from collections.abc import Collection

from fingerprint.core.ports import Offsets, Partition

STALL_SECONDS = 120.0  # without progress, after which a lagging partition counts as stalled


class StallDetector:
    """What is not assigned, paused on purpose, or read to its end starts anew when that is over."""

    def __init__(self, stall_seconds: float) -> None:
        self.stall_seconds = stall_seconds
        self._last_progress: dict[Partition, tuple[int, float]] = {}  # at which position, since when

    def stalled(
        self, now: float, positions: Offsets, lag: Offsets, paused: Collection[Partition] = ()
    ) -> list[Partition]:
        """Those that have stood still for `seconds` or longer, in order.

        `now`: seconds, on a clock that never goes back. `positions`: of what was handed on; a partition of which nothing
        was yet may be missing. `lag`: messages, of every partition that is assigned.
        """
        before, self._last_progress = self._last_progress, {}
        for each in (each for each, behind in lag.items() if behind > 0 and each not in paused):
            position = positions.get(each, -1)
            at, since = before.get(each, (position, now))
            self._last_progress[each] = (at, since) if at == position else (position, now)
        return sorted(
            each for each, (_, since) in self._last_progress.items() if now - since >= self.stall_seconds
        )
