"""Event time goes where many events have gone; no single record takes it far ahead."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fingerprint.core.settings import Settings
from fingerprint.state.event_clock import PATIENCE, SEVERAL, EventClock
from fingerprint.state.scorer_state import Ledger

NOW, HOUR, DAY, FAR = 1_767_225_600, 3600, 86_400, 4_070_908_800


def clock_at(now: int = NOW, principals: int = 2) -> EventClock:
    """A clock that has come to `now` by twenty minutes of events."""
    clock = EventClock(HOUR)
    clock.see(now - 20 * 60 + np.arange(0, 1_201, 60), who(21, principals))
    assert clock.watermark == now
    return clock


def who(events: int, principals: int) -> np.ndarray:
    return np.arange(events, dtype=np.uint64) % np.uint64(principals)


@pytest.mark.parametrize("ahead", [2 * HOUR, 26 * HOUR, 13 * DAY, FAR - NOW])
@pytest.mark.parametrize("count", [1, SEVERAL - 1])
def test_few_records_dated_ahead_move_no_clock(ahead: int, count: int) -> None:
    clock = clock_at()
    clock.see(np.full(count, NOW + ahead), who(count, 5))
    assert (clock.watermark, clock.ahead) == (NOW, count)
    clock.see(np.array([NOW + 60]), who(1, 1))
    assert clock.watermark == NOW + 60, "and it goes on with the others"


def test_as_many_of_one_principal_as_it_likes_move_no_clock_either() -> None:
    clock = clock_at()
    clock.see(np.full(500, NOW + 13 * DAY), who(500, 1))
    assert (clock.watermark, clock.ahead) == (NOW, SEVERAL)


def test_a_month_without_a_record_happens() -> None:
    clock = clock_at()
    times = NOW + 30 * DAY + np.arange(SEVERAL)
    for at, each in zip(times, who(SEVERAL, 2), strict=True):  # one at a time: they wait for each other
        clock.see(np.array([at]), np.array([each]))
    assert (clock.watermark, clock.ahead) == (times[-1], 0)


def test_events_that_nothing_bears_out_are_forgotten() -> None:
    clock = clock_at()
    clock.see(np.full(SEVERAL - 1, NOW + 13 * DAY), who(SEVERAL - 1, 5))
    for minute in range(1, PATIENCE + 2):
        clock.see(np.array([NOW + minute]), who(1, 1))
    clock.see(np.array([NOW + 13 * DAY]), who(1, 1))
    assert (clock.watermark, clock.ahead) == (NOW + PATIENCE + 1, 1), "not the twentieth of twenty"


def test_where_only_one_principal_was_ever_seen_it_is_enough() -> None:
    clock = clock_at(principals=1)
    clock.see(NOW + 3 * DAY + np.arange(SEVERAL), who(SEVERAL, 1))
    assert clock.watermark == NOW + 3 * DAY + SEVERAL - 1


def test_who_is_left_alone_for_long_is_enough_too() -> None:
    """A second principal that never comes again does not stop the clock of the first one for ever."""
    clock = clock_at()
    clock.see(np.full(PATIENCE, NOW), who(PATIENCE, 1))
    clock.see(NOW + 3 * DAY + np.arange(SEVERAL), who(SEVERAL, 1))
    assert clock.watermark == NOW + 3 * DAY + SEVERAL - 1


@pytest.mark.parametrize("size", [1, 7, 400])
def test_in_a_steady_stream_it_is_the_latest_event_wherever_that_is_cut(size: int) -> None:
    times = NOW + np.sort(np.random.default_rng(0).integers(0, 2 * DAY, 400))
    clock = EventClock(HOUR)
    for begin, end in pairwise([*range(0, 400, size), 400]):
        clock.see(times[begin:end], who(end - begin, 5))
    assert clock.watermark == times[-1]


def test_the_clock_of_a_ledger_survives_with_what_waits() -> None:
    ledger = Ledger(Settings())
    ledger.clock = clock_at()
    ledger.see(np.full(3, NOW + 13 * DAY), who(3, 3))
    again = Ledger.from_arrays(Settings(), ledger.as_arrays())
    assert (again.watermark, again.ahead) == (NOW, 3)
    np.testing.assert_array_equal(again.clock.as_array(), ledger.clock.as_array())
