"""First calls: a tool or a place is familiar after four calls, in whatever order they come."""

from __future__ import annotations

from typing import Any

import fake_cupy
import numpy as np
import pytest

from fingerprint.compute.arrays import to_host
from fingerprint.core.settings import Settings
from fingerprint.state.first_calls import FAMILIAR_CALLS, FirstCalls
from fingerprint.state.scorer_state import NOVELTY_DAYS, ScorerState

NOON, LATER = 500_000, 500_020  # intervals


def age(first: FirstCalls, interval: int, action: int) -> int:
    """The age of a value that comes in an interval with an action, from now on counted."""
    value = np.array([7], np.uint64)
    at, called = np.array([interval], np.int32), np.array([action], np.uint64)
    return int(first.familiar_age(value, at, called)[0])


def test_who_tries_a_key_with_a_few_calls_is_no_more_familiar_when_they_come_back() -> None:
    first = FirstCalls()
    for action in (1, 2, 2, 2, 3, 1):
        age(first, NOON, action)
    assert age(first, LATER, 1) == 0, "the fourth call is this one"


def test_four_different_calls_of_an_hour_or_one_in_four_hours_make_it_familiar() -> None:
    for calls in ([(NOON, 1), (NOON, 2), (NOON, 3), (NOON, 4)], [(NOON - hour, 1) for hour in range(4)]):
        first = FirstCalls()
        for interval, action in calls:
            age(first, interval, action)
        assert age(first, LATER, 9) == LATER - NOON


@pytest.mark.parametrize("library", [np, fake_cupy])
@pytest.mark.parametrize("batches", [1, 2, 9, 90])
def test_the_earliest_calls_are_kept_in_whatever_order_they_come(library: Any, batches: int) -> None:
    rng = np.random.default_rng(batches)
    value = rng.integers(1, 15, 90).astype(np.uint64)
    interval, action = (
        (NOON + rng.integers(0, 9, 90)).astype(np.int32),
        rng.integers(0, 3, 90).astype(np.uint64),
    )
    first = FirstCalls(library.asarray)
    for rows in np.array_split(np.arange(90), batches):
        first.familiar_age(*(library.asarray(each[rows]) for each in (value, interval, action)))
    distinct = np.unique(value)
    calls = [sorted({*zip(interval[value == each], action[value == each], strict=True)}) for each in distinct]
    again = np.full(len(distinct), LATER, np.int32), np.full(len(distinct), 77, np.uint64)
    found = to_host(first.familiar_age(*(library.asarray(each) for each in (distinct, *again))))
    late = [(LATER, 77)] * FAMILIAR_CALLS
    expected = [LATER - int((each + late)[FAMILIAR_CALLS - 1][0]) for each in calls]
    is_familiar = np.array([len(each) >= FAMILIAR_CALLS - 1 for each in calls])
    assert 0 < is_familiar.sum() < len(calls)
    np.testing.assert_array_equal(found[is_familiar], np.array(expected)[is_familiar])
    assert (found[~is_familiar] < 0).all()


def test_they_are_kept_through_a_restart_and_dropped_with_the_novelties() -> None:
    state = ScorerState(Settings())
    for action in range(FAMILIAR_CALLS):
        age(state.first_calls, NOON, action)
    state = ScorerState.from_arrays(Settings(), state.as_arrays())
    assert age(state.first_calls, LATER, 1) == LATER - NOON
    state.watermark = (NOON + 24 * (NOVELTY_DAYS + 2)) * 3600
    state.expire()
    assert len(state.first_calls.calls) == 0
