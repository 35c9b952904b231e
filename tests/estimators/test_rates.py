"""Rates of what is seldom: one owner's lean on all owners' until it has days of its own."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.estimators.rates import (
    ALL_DAYS,
    ALL_NEW,
    MAX_NATS,
    NEVER,
    distinct_days,
    first_times,
    rarity_nats,
)


def test_an_owner_leans_on_all_owners_by_the_days_that_these_are_worth() -> None:
    new, days = np.array([0, 9, 0]), np.array([14, 20, 0])
    of_all = (9 + ALL_NEW) / (34 + ALL_DAYS)
    for prior in (1.0, 10.0):
        expected = [prior * of_all / (14 + prior), (9 + prior * of_all) / (20 + prior), of_all]
        assert rarity_nats(new, days, prior) == pytest.approx(-np.log(expected), abs=1e-5)
    assert (rarity_nats(new, days, 2.0, all_new=3.0) < rarity_nats(new, days, 2.0)).all()


def test_what_never_happened_has_no_more_nats_than_a_feature_and_what_always_does_has_none() -> None:
    assert rarity_nats(np.array([0]), np.array([10**6]), 1.0).tolist() == [MAX_NATS]
    assert rarity_nats(np.array([99]), np.array([10]), 1.0).tolist() == [0], "several a day"


def test_a_day_counts_once_of_each_owner() -> None:
    owner, day = np.array([0, 0, 0, 2, 2]), np.array([5, 5, 6, 5, 2**31 - 1], np.int32)
    assert distinct_days(owner, day, owners=4).tolist() == [2, 0, 2, 0]


def test_the_first_time_of_an_owner_is_its_earliest_row_in_whatever_order() -> None:
    owner, time = np.array([2, 0, 2, 0]), np.array([7, 5, 6, 9], np.int32)
    assert first_times(owner, time, owners=3).tolist() == [5, NEVER, 6]
    assert first_times(owner[::-1], time[::-1], owners=3).tolist() == [5, NEVER, 6]
