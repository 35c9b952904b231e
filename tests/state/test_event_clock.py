"""Event time goes where many events have gone; no single record takes it far ahead."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fingerprint.core.settings import Settings
from fingerprint.state.event_clock import CONFIRMATIONS, MAX_PENDING_AGE, EventClock
from fingerprint.state.scorer_state import ScorerState

NOW, HOUR, DAY, FAR = 1_767_225_600, 3600, 86_400, 4_070_908_800


def clock_at(now: int = NOW, principals: int = 2) -> EventClock:
    """A clock that has come to `now` by twenty minutes of events."""
    clock = EventClock(HOUR)
    clock.observe(now - 20 * 60 + np.arange(0, 1_201, 60), who(21, principals))
    assert clock.watermark == now
    return clock


def who(events: int, principals: int) -> np.ndarray:
    return np.arange(events, dtype=np.uint64) % np.uint64(principals)


@pytest.mark.parametrize("ahead", [2 * HOUR, 26 * HOUR, 13 * DAY, FAR - NOW])
@pytest.mark.parametrize("count", [1, CONFIRMATIONS - 1])
def test_few_records_dated_ahead_move_no_clock(ahead: int, count: int) -> None:
    clock = clock_at()
    clock.observe(np.full(count, NOW + ahead), who(count, 5))
    assert (clock.watermark, clock.unconfirmed) == (NOW, count)
    clock.observe(np.array([NOW + 60]), who(1, 1))
    assert clock.watermark == NOW + 60, "and it goes on with the others"


def test_as_many_of_one_principal_as_it_likes_move_no_clock_either() -> None:
    clock = clock_at()
    clock.observe(np.full(500, NOW + 13 * DAY), who(500, 1))
    assert (clock.watermark, clock.unconfirmed) == (NOW, CONFIRMATIONS)


def test_a_month_without_a_record_happens() -> None:
    clock = clock_at()
    times = NOW + 30 * DAY + np.arange(CONFIRMATIONS)
    for at, each in zip(times, who(CONFIRMATIONS, 2), strict=True):  # one at a time: they wait for each other
        clock.observe(np.array([at]), np.array([each]))
    assert (clock.watermark, clock.unconfirmed) == (times[-1], 0)


def test_events_that_nothing_bears_out_are_forgotten() -> None:
    clock = clock_at()
    clock.observe(np.full(CONFIRMATIONS - 1, NOW + 13 * DAY), who(CONFIRMATIONS - 1, 5))
    for minute in range(1, MAX_PENDING_AGE + 2):
        clock.observe(np.array([NOW + minute]), who(1, 1))
    clock.observe(np.array([NOW + 13 * DAY]), who(1, 1))
    assert (clock.watermark, clock.unconfirmed) == (NOW + MAX_PENDING_AGE + 1, 1), (
        "not the twentieth of twenty"
    )


def test_where_only_one_principal_was_ever_seen_it_is_enough() -> None:
    clock = clock_at(principals=1)
    clock.observe(NOW + 3 * DAY + np.arange(CONFIRMATIONS), who(CONFIRMATIONS, 1))
    assert clock.watermark == NOW + 3 * DAY + CONFIRMATIONS - 1


def test_who_is_left_alone_for_long_is_enough_too() -> None:
    """A second principal that never comes again does not stop the clock of the first one for ever."""
    clock = clock_at()
    clock.observe(np.full(MAX_PENDING_AGE, NOW), who(MAX_PENDING_AGE, 1))
    clock.observe(NOW + 3 * DAY + np.arange(CONFIRMATIONS), who(CONFIRMATIONS, 1))
    assert clock.watermark == NOW + 3 * DAY + CONFIRMATIONS - 1


@pytest.mark.parametrize("size", [1, 7, 400])
def test_in_a_steady_stream_it_is_the_latest_event_wherever_that_is_cut(size: int) -> None:
    times = NOW + np.sort(np.random.default_rng(0).integers(0, 2 * DAY, 400))
    clock = EventClock(HOUR)
    for begin, end in pairwise([*range(0, 400, size), 400]):
        clock.observe(times[begin:end], who(end - begin, 5))
    assert clock.watermark == times[-1]


def test_the_clock_of_a_scorer_state_survives_with_what_waits() -> None:
    scorer_state = ScorerState(Settings())
    scorer_state.clock = clock_at()
    scorer_state.observe_time(np.full(3, NOW + 13 * DAY), who(3, 3))
    again = ScorerState.from_arrays(Settings(), scorer_state.as_arrays())
    assert (again.watermark, again.unconfirmed) == (NOW, 3)
    np.testing.assert_array_equal(again.clock.as_array(), scorer_state.clock.as_array())
