"""A wait is as long as it was asked for, and ends a moment after the program is asked to end."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipelines.runtime.interruptible_clock import TICK_SECONDS, InterruptibleClock, StopRequested
from tests.support.manual_clock import ManualClock

START = datetime(2026, 3, 18, tzinfo=UTC)


def test_a_wait_is_as_long_as_it_was_asked_for() -> None:
    clock = ManualClock(START)
    interruptible = InterruptibleClock(clock, lambda: False)
    interruptible.sleep(1.5)
    assert clock.seconds == pytest.approx(1.5)
    assert interruptible.now() == clock.time


def test_a_wait_ends_a_tick_after_the_program_is_asked_to_end() -> None:
    clock = ManualClock(START)
    with pytest.raises(StopRequested):
        InterruptibleClock(clock, lambda: clock.seconds >= 1).sleep(3600)
    assert 1 <= clock.seconds < 1 + 2 * TICK_SECONDS


def test_work_without_a_wait_is_interrupted_where_it_reports_progress() -> None:
    stopped = InterruptibleClock(ManualClock(START), lambda: True)
    with pytest.raises(StopRequested):
        stopped.progress("replaying bytes", 1, 2)
    with pytest.raises(StopRequested):
        stopped.sleep(0)
    InterruptibleClock(ManualClock(START), lambda: False).progress("replaying bytes", 1, 2)
