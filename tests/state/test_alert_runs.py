"""Runs of intervals: one alert while verdicts touch, whatever the order and the cut."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import hashing
from fingerprint.core.settings import Settings
from fingerprint.state.alert_runs import AlertRuns, alert_peaks
from fingerprint.state.partitioning import select_buckets
from fingerprint.state.scorer_state import ScorerState

GAP, LONGEST = 3, 24


def assigned(intervals: list[int], runs: AlertRuns | None = None, principal: int = 7) -> list[int]:
    runs = runs or AlertRuns(GAP, LONGEST)
    names = np.full(len(intervals), principal, np.uint64)
    return runs.assign(names, np.array(intervals, np.int32)).tolist()


def test_intervals_belong_together_up_to_the_gap() -> None:
    assert assigned([10, 11, 14, 18, 21]) == [10, 10, 10, 18, 18]


def test_a_run_ends_at_its_largest_length_and_another_begins() -> None:
    assert assigned([0, 3, 6, 9, 12, 15, 18, 21, 24, 27]) == [0] * 8 + [24, 24]


def test_principals_have_runs_of_their_own() -> None:
    names, intervals = np.array([2, 1, 2, 1], np.uint64), np.array([5, 4, 9, 6], np.int32)
    assert AlertRuns(GAP, LONGEST).assign(names, intervals).tolist() == [5, 4, 9, 4]


@pytest.mark.parametrize("seed", range(20))
def test_neither_the_order_within_a_step_nor_the_cut_into_steps_changes_a_run(seed: int) -> None:
    rng = np.random.default_rng(seed)
    intervals = np.sort(rng.choice(200, 60)).astype(np.int32)
    principals = rng.integers(1, 4, 60).astype(np.uint64)
    whole = AlertRuns(GAP, LONGEST).assign(principals, intervals)
    cuts = [0, *np.sort(rng.choice(200, 5)).tolist(), 1000]  # steps close intervals in order
    stepwise, out = AlertRuns(GAP, LONGEST), np.empty(60, np.int32)
    for start, end in pairwise(cuts):
        rows = rng.permutation(np.flatnonzero((intervals >= start) & (intervals < end)))
        out[rows] = stepwise.assign(principals[rows], intervals[rows])
    np.testing.assert_array_equal(out, whole)


def test_a_preview_says_what_would_be_and_keeps_nothing() -> None:
    runs = AlertRuns(GAP, LONGEST)
    assigned([10], runs)
    assert runs.preview(np.array([7, 7], np.uint64), np.array([12, 20], np.int32)).tolist() == [10, 20]
    assert assigned([14], runs) == [14]


def test_a_record_that_comes_too_late_joins_the_latest_run_and_never_renames_or_merges_it() -> None:
    runs = AlertRuns(GAP, LONGEST)
    assert assigned([10], runs) == [10]
    assert assigned([20], runs) == [20]
    assert assigned([18], runs) == [20], "near the latest one"
    assert assigned([12], runs) == [12], "near none that is remembered"
    assert assigned([21], runs) == [20]


def test_a_run_is_over_once_nothing_can_join_it() -> None:
    runs = AlertRuns(GAP, LONGEST)
    assigned([10, 12], runs)
    who, first = np.array([7], np.uint64), np.array([10], np.int32)
    assert [bool(runs.is_over(who, first, at)[0]) for at in (13, 15, 16)] == [False, False, True]
    assigned([30], runs)
    assert runs.is_over(who, first, 13)[0], "another run has begun"
    assert runs.is_over(who, np.array([30], np.int32), 30 + LONGEST)[0]


def test_peaks_are_the_alerts_that_a_falling_threshold_opens() -> None:
    principal = np.array([1, 1, 1, 1, 2], np.uint64)
    interval, z = np.array([10, 12, 40, 14, 12], np.int32), np.array([5.0, 6.0, 4.0, 3.0, 5.5])
    assert z[alert_peaks(principal, interval, z, GAP, 10)].tolist() == [6.0, 5.5, 4.0]
    assert len(alert_peaks(principal, interval, z, GAP, 2)) == 2


def test_runs_are_saved_split_and_merged_with_the_buckets_of_their_principals() -> None:
    state, settings = ScorerState(Settings()), Settings()
    names = hashing.hash_with_bucket(pd.Series([f"123456789012:user/u{each}" for each in range(40)]))
    AlertRuns(GAP, LONGEST, state.alert_runs).assign(names, np.arange(40, dtype=np.int32))
    even = hashing.buckets_of_partitions(np.arange(256) % 2 == 0)
    arrays = state.as_arrays()
    part = ScorerState.from_arrays(settings, select_buckets(arrays, even))
    assert 0 < len(part.alert_runs) < 40
    part.merge(select_buckets(arrays, ~even))
    again = AlertRuns(GAP, LONGEST, part.alert_runs).preview(names, np.arange(2, 42, dtype=np.int32))
    assert again.tolist() == list(range(40))
