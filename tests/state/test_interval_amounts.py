"""The calls of each action in an interval: the same whatever the order and the cut."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from fingerprint.state.interval_amounts import IntervalAmounts, calls_before


def events(count: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return (
        random.integers(0, 4, count).astype(np.uint64),
        random.integers(100, 104, count).astype(np.int32),
        random.integers(0, 5, count).astype(np.uint64),
    )


@pytest.mark.parametrize("size", [1, 13, 300])
def test_calls_are_counted_by_principal_interval_and_action_whatever_the_cut(size: int) -> None:
    parts, amounts = events(), IntervalAmounts()
    order = np.random.default_rng(size).permutation(300)
    for start in range(0, 300, size):
        amounts.add(*(part[order[start : start + size]] for part in parts))
    calls = Counter(zip(*(part.tolist() for part in parts), strict=True))
    wanted = [calls[each] for each in zip(*(part.tolist() for part in parts), strict=True)]
    assert amounts.count(*parts).tolist() == wanted


@pytest.mark.parametrize("size", [1, 300])
def test_intervals_that_end_with_an_events_own_are_added_up(size: int) -> None:
    parts, amounts = events(), IntervalAmounts()
    for start in range(0, 300, size):
        amounts.add(*(part[start : start + size] for part in parts))
    principal, interval, action = parts
    wanted = [
        int(((principal == p) & (action == a) & (interval <= at) & (interval > at - 3)).sum())
        for p, at, a in zip(principal, interval, action, strict=True)
    ]
    assert amounts.count(*parts, 3).tolist() == wanted


def test_what_is_over_is_forgotten() -> None:
    amounts, parts = IntervalAmounts(), events()
    amounts.add(*parts)
    amounts.expire(102)
    old = parts[1] < 102
    assert (amounts.count(*parts)[old] == 0).all()
    assert (amounts.count(*parts)[~old] > 0).all()


def test_a_row_that_stands_for_many_calls_counts_as_often() -> None:
    parts, calls = events(), np.random.default_rng(1).integers(1, 9, 300).astype(np.int32)
    one_by_one, together = IntervalAmounts(), IntervalAmounts()
    one_by_one.add(*(column.repeat(calls) for column in parts))
    together.add(*parts, calls)
    assert together.count(*parts).tolist() == one_by_one.count(*parts).tolist()


def test_the_day_before_ends_before_what_late_records_may_change() -> None:
    amounts = IntervalAmounts()
    hours = np.arange(100, 130, dtype=np.int32)
    one = np.ones(len(hours), np.uint64)
    amounts.add(one, hours, one, 2 ** (hours - 100))
    found = calls_before(amounts, day=24, late=1)(one[:1], np.array([128], np.int32), one[:1])
    assert found.tolist() == [sum(2 ** (hour - 100) for hour in range(103, 127))]
