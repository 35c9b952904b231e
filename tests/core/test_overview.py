"""A lead's figures: durations, precision with its interval, days and weeks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy.stats import binomtest

from fingerprint.core.overview import (
    AlertTimes,
    measure_durations,
    measure_precision,
    percentile,
    summarise,
    wilson_interval,
)

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def came(
    days_ago: float, decision=None, answered: float | None = None, closed: float | None = None, urgency=50
):
    at = NOW - timedelta(days=days_ago)
    ends = (None if hours is None else at + hours * HOUR for hours in (answered, closed))
    return AlertTimes(f"a{days_ago}{decision}", urgency, at, *ends, decision)


@given(trials=some.integers(1, 400), share=some.floats(0, 1))
def test_the_interval_is_wilsons(trials, share):
    successes = round(share * trials)
    theirs = binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert wilson_interval(successes, trials) == pytest.approx((theirs.low, theirs.high), abs=1e-6)


@given(values=some.lists(some.floats(0, 1e9), min_size=1, max_size=40), share=some.sampled_from([0.5, 0.9]))
def test_percentiles_are_those_of_numpy(values, share):
    assert percentile(sorted(values), share) == pytest.approx(np.quantile(values, share), rel=1e-9, abs=1e-9)


def test_what_still_waits_is_counted_beside_what_is_done():
    spans = [
        (NOW - 5 * HOUR, NOW - 4 * HOUR),
        (NOW - 9 * HOUR, NOW - 6 * HOUR),
        (NOW - 5 * HOUR, None),
        (NOW - HOUR, None),
    ]
    found = measure_durations(spans, NOW, 4 * 3600)
    assert (found.done, found.median, found.p90, found.waiting, found.late) == (2, 7200.0, None, 2, 1)
    assert measure_durations([(NOW - HOUR, NOW)] * 10, NOW, 1).p90 == 3600.0
    assert measure_durations([(NOW, NOW - HOUR)], NOW, 1).median == 0.0  # a clock that is behind
    assert measure_durations([], NOW, 1).median is None


def test_precision_leaves_duplicates_and_open_alerts_out_and_says_so():
    alerts = [came(1, each) for each in ("true_positive", "benign", "false_positive", "duplicate", None)]
    found = measure_precision("all", alerts)
    assert (found.decided, found.undecided, found.share) == (3, 2, pytest.approx(1 / 3))
    assert found.low < found.share < found.high
    nothing = measure_precision("none", [came(1)])
    assert (nothing.share, nothing.low, nothing.high) == (None, None, None)


def test_alerts_count_on_the_day_and_in_the_week_in_which_they_came():
    alerts = [
        came(0, "true_positive", 1, 2, 90),
        came(6, "benign", 1, 3, 10),
        came(6.1, None, None, None, 40),
    ]
    found = summarise(alerts, NOW - timedelta(days=7), NOW, 3600, 7200, {alerts[0].alert_id: "spectral"})
    assert (found.alerts, len(found.days), found.decisions) == (
        3,
        8,
        {"benign": 1, "open": 1, "true_positive": 1},
    )
    assert {day.day: (day.critical, day.medium, day.low) for day in found.days if day.critical or day.low} == {
        date(2026, 3, 20): (1, 0, 0), date(2026, 3, 14): (0, 1, 1),
    }  # fmt: skip
    assert [(week.name, week.decided, week.undecided) for week in found.by_week] == [
        ("2026-03-09", 1, 1),
        ("2026-03-16", 1, 0),
    ]
    assert [(each.name, each.true_positives) for each in found.by_detector] == [("spectral", 1)]
    assert (found.first_response.done, found.first_response.late, found.time_to_close.median) == (
        2,
        1,
        9000.0,
    )
