"""Confidence intervals and pooled figures, by hand."""

from __future__ import annotations

from math import sqrt

import pytest
from scipy.stats import binomtest

from fingerprint.evaluation.statistics import (
    clustered_interval,
    confidence_intervals,
    pool_figures,
    share_interval,
    student_interval,
)


@pytest.mark.parametrize(("found", "there"), [(0, 3), (11, 12), (48, 48), (70, 144)])
def test_a_share_has_wilsons_interval(found: int, there: int) -> None:
    low, high = binomtest(found, there).proportion_ci(0.95, method="wilson")
    assert share_interval(found, there) == pytest.approx([low, high], abs=1e-4)


def test_of_nothing_there_is_no_share() -> None:
    assert share_interval(0, 0) is None


def test_organisations_that_agree_are_one_and_those_that_differ_say_less() -> None:
    assert clustered_interval([8, 9, 9], [12, 12, 12]) == share_interval(26, 36)
    assert clustered_interval([11], [12]) == share_interval(11, 12)
    differing, alone = clustered_interval([12, 12, 0], [12, 12, 12]), share_interval(24, 36)
    assert differing is not None
    assert alone is not None
    assert differing[0] < alone[0] - 0.2
    assert differing[1] > alone[1] + 0.1
    assert clustered_interval([12, 12], [12, 12]) == share_interval(24, 24)
    assert clustered_interval([0], [0]) is None


def test_a_mean_over_three_seeds_reaches_four_standard_errors() -> None:
    reach = 4.302653 * 1.0 / sqrt(3)  # Student's t, 2 degrees of freedom; the values' spread is 1
    assert student_interval([1.0, 2.0, 3.0]) == pytest.approx([2 - reach, 2 + reach], abs=1e-4)


def test_one_seed_says_nothing_of_the_others() -> None:
    assert student_interval([0.7]) is None


def one(found: int, false: float) -> dict:
    event = {"precision": 0.5, "recall": 0.5, "average_precision": 0.5}
    counts = {"sessions": 4, "found": found, "found_at": {"20": found}}
    return {
        "alerts_per_day": false + 1, "false_alerts_per_day": false, "per_event": event, "per_session": event,
        "false_alerts_per_day_per_100_principals": false, **counts, "by_strength": {"quiet": counts},
    }  # fmt: skip


def test_sessions_are_counted_over_all_seeds_and_false_alerts_by_seed() -> None:
    seeds = [one(4, 1.0), one(3, 2.0), one(4, 3.0)]
    found = clustered_interval([4, 3, 4], [4, 4, 4])
    pooled = {**one(11, 2.0), "sessions": 12, "by_strength": {"quiet": {**one(11, 2.0), "sessions": 12}}}
    sure = confidence_intervals(pooled, seeds)
    assert sure["recall"] == sure["by_strength"]["quiet"]["recall_at"]["20"] == found
    assert sure["false_alerts_per_day"] == student_interval([1.0, 2.0, 3.0])
    assert sure["per_event precision"] == [0.5, 0.5]


def test_pooling_adds_counts_and_averages_ratios() -> None:
    left = {"name": "x", "found": 3, "recall": 0.5, "by_strength": {"quiet": {"recall": 1.0}}, "median": None}
    right = {
        "name": "x",
        "found": 4,
        "recall": 0.7,
        "by_strength": {"mimic": {"recall": 0.2}},
        "median": 60.0,
    }
    assert pool_figures([left, right]) == {
        "name": "x",
        "found": 7,
        "recall": 0.6,
        "by_strength": {"quiet": {"recall": 1.0}, "mimic": {"recall": 0.2}},
        "median": 60.0,
    }
