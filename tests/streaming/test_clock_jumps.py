"""A wall clock that jumps ahead is believed once it has kept time for long, and one that is corrected at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fingerprint.streaming.clock_jumps import SETTLING_SECONDS, ClockJumps
from tests.support.manual_clock import ManualClock

START = datetime(2026, 3, 2, tzinfo=UTC)


class Clocks:
    """A wall clock and a monotonic one; `pass_time` moves both, `set_ahead` the first."""

    def __init__(self) -> None:
        self.wall, self.seconds = ManualClock(START), 0.0
        self.jumps = ClockJumps(self.wall, lambda: self.seconds)

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
        self.wall.sleep(seconds)

    def set_ahead(self, **by: float) -> None:
        self.wall.time += timedelta(**by)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def test_a_clock_that_keeps_time_is_believed_and_small_steps_are_followed(clocks: Clocks) -> None:
    for _ in range(100):
        clocks.pass_time(3600)
        clocks.set_ahead(seconds=60)
        assert clocks.jumps.believed_time() == clocks.wall.now()


def test_a_jump_is_not_believed_until_it_has_lasted(clocks: Clocks) -> None:
    clocks.set_ahead(days=60)
    assert clocks.jumps.believed_time() is None
    assert clocks.jumps.describe().startswith("it jumped ahead by 1,440.0 hours: ")
    clocks.pass_time(SETTLING_SECONDS - 1)
    assert clocks.jumps.believed_time() is None
    clocks.pass_time(1)
    assert clocks.jumps.believed_time() == clocks.wall.now()
    clocks.pass_time(5)
    assert clocks.jumps.believed_time() == clocks.wall.now()


def test_a_second_jump_has_to_last_as_well(clocks: Clocks) -> None:
    clocks.set_ahead(days=1)
    assert clocks.jumps.believed_time() is None
    clocks.pass_time(SETTLING_SECONDS - 1)
    clocks.set_ahead(days=1)
    assert clocks.jumps.believed_time() is None
    clocks.pass_time(SETTLING_SECONDS - 1)
    assert clocks.jumps.believed_time() is None


@pytest.mark.parametrize("by", [-60, -61])
def test_a_clock_that_is_put_right_or_behind_is_believed_at_once(clocks: Clocks, by: int) -> None:
    clocks.set_ahead(days=60)
    assert clocks.jumps.believed_time() is None
    clocks.set_ahead(days=by)
    assert clocks.jumps.believed_time() == clocks.wall.now()
