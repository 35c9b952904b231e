"""A wait is as long as it was asked for, and ends a moment after the program is asked to end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipelines.runtime.interruptible_clock import TICK_SECONDS, InterruptibleClock, StopRequested

START = datetime(2026, 3, 18, tzinfo=UTC)


class ManualClock:
    """Moves only when someone waits."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    @property
    def seconds(self) -> float:
        return (self.time - START).total_seconds()


def test_a_wait_is_as_long_as_it_was_asked_for() -> None:
    clock = ManualClock()
    interruptible = InterruptibleClock(clock, lambda: False)
    interruptible.sleep(1.5)
    assert clock.seconds == pytest.approx(1.5)
    assert interruptible.now() == clock.time


def test_a_wait_ends_a_tick_after_the_program_is_asked_to_end() -> None:
    clock = ManualClock()
    with pytest.raises(StopRequested):
        InterruptibleClock(clock, lambda: clock.seconds >= 1).sleep(3600)
    assert 1 <= clock.seconds < 1 + 2 * TICK_SECONDS


def test_work_without_a_wait_is_interrupted_where_it_reports_progress() -> None:
    stopped = InterruptibleClock(ManualClock(), lambda: True)
    with pytest.raises(StopRequested):
        stopped.progress("replaying bytes", 1, 2)
    with pytest.raises(StopRequested):
        stopped.sleep(0)
    InterruptibleClock(ManualClock(), lambda: False).progress("replaying bytes", 1, 2)
