"""The series of all entities: sparse and daily here, dense and plain there; order, batches and old bursts change nothing."""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest

from fingerprint.compute import hashing
from fingerprint.core.settings import Spectral
from fingerprint.estimators import spectral
from fingerprint.state.activity_series import ActivitySeries

OPTIONS = Spectral()
START = 480_000 // 24 * 24  # hours since the epoch, at midnight
CHANNEL = np.uint64(1)


def filled(days: int, owners: int = 3, rate: float = 4.0, seed: int = 0) -> tuple[ActivitySeries, np.ndarray]:
    """Series of `days` days of Poisson counts, and the same as a dense matrix (owners, hours)."""
    counts = np.random.default_rng(seed).poisson(rate, (owners, days * 24)).astype(np.float32)
    series = ActivitySeries(OPTIONS)
    for day in range(days):
        owner, hour = (
            grid.ravel() for grid in np.meshgrid(np.arange(owners), np.arange(day * 24, day * 24 + 24))
        )
        add(series, owner, START + hour, counts[owner, hour])
        series.close_days(START + day * 24 + 24 + series.late_intervals)
    return series, counts


def add(series: ActivitySeries, owner: np.ndarray, interval: np.ndarray, weight: np.ndarray) -> np.ndarray:
    size = len(owner)
    keys = series.add_counts(
        owner.astype(np.uint64),
        np.full(size, CHANNEL),
        interval.astype(np.int32),
        np.full(size, START, np.int32),
        weight.astype(np.float32),
    )
    return series.find_rows(keys)


def test_what_is_expected_agrees_with_the_dense_transform() -> None:
    series, counts = filled(days=15)
    rows = series.find_rows(hashing.combine(np.arange(3, dtype=np.uint64), CHANNEL))
    now = START + 15 * 24 + 9
    got, spread = series.expected_counts(rows, np.full(3, now, np.int32))
    window = counts[:, 15 * 24 - 1 - 14 * 24 : 15 * 24 - 1]  # two whole weeks, the last hour may still change
    usual = spectral.clip_surges(window, 24)
    ahead, plain_spread = spectral.forecast(usual, 24, spectral.POWER_QUANTILE, gap=1)
    habit = counts[:, [12 * 24 + 9, 13 * 24 + 9, 14 * 24 + 9]].min(axis=1)
    np.testing.assert_allclose(got, np.maximum(ahead[:, 9], habit), atol=1e-4)
    np.testing.assert_allclose(spread, plain_spread, atol=1e-4)


def test_what_is_silent_does_not_depend_on_how_many_intervals_close_together() -> None:
    series, _ = filled(days=15, owners=1, rate=40.0)
    start = START + 15 * 24
    _, together, z = series.silent_intervals(CHANNEL, start, start + 72)
    alone = [series.silent_intervals(CHANNEL, hour, hour + 1)[1] for hour in range(start, start + 72)]
    assert together.tolist() == np.concatenate(alone).tolist()
    assert together.tolist() == list(range(start, start + 48))  # two days without an event are a pause
    assert (z >= spectral.SURGE_Z).all()
    add(
        series, np.zeros(1, int), np.full(1, start + 60), np.full(1, 50)
    )  # later activity tells nothing of before
    assert series.silent_intervals(CHANNEL, start + 50, start + 72)[1].tolist() == list(
        range(start + 61, start + 72)
    )


def test_a_surge_is_voted_while_the_interval_fills() -> None:
    series, _ = filled(days=15)
    now = np.full(1, START + 15 * 24 + 3)
    seen = []
    for _ in range(40):
        row = add(series, np.zeros(1), now, np.ones(1))
        seen.append(float(series.z_scores(row, now.astype(np.int32))[0]))
    assert seen == sorted(seen)
    assert seen[3] < OPTIONS.threshold < seen[-1]


def test_a_burst_enters_a_forecast_clipped_so_the_next_two_are_seen_too_and_then_it_is_a_habit() -> None:
    series, _ = filled(days=15)
    seen = []
    for day in range(15, 19):
        now = np.full(1, START + day * 24 + 3)
        row = add(series, np.zeros(1), now, np.full(1, 500.0))
        seen.append(float(series.z_scores(row, now.astype(np.int32))[0]))
        series.close_days(START + (day + 1) * 24 + series.late_intervals)
    assert min(seen[: spectral.HABIT_DAYS]) > 20
    assert seen[spectral.HABIT_DAYS] < 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (np.full(24, 10.0), np.full(24, 100.0)),
        (np.eye(24)[3] * 50, np.eye(24)[2] * 50),
    ],
    ids=["a workload that grew", "a nightly job when daylight saving time begins"],
)
@pytest.mark.parametrize("rest_days", [0, 2], ids=["every day", "on weekdays"])
def test_a_change_for_good_is_news_for_three_days(
    before: np.ndarray, after: np.ndarray, rest_days: int
) -> None:
    series, random, seen = ActivitySeries(OPTIONS), np.random.default_rng(0), []
    for day in range(42):
        counts = random.poisson(after if day >= 30 else before) * (day % 7 < 7 - rest_days)
        hour = np.flatnonzero(counts)
        if len(hour):
            at = START + day * 24 + hour
            row = add(series, np.zeros(len(at)), at, counts[hour])
            seen.append(int((series.z_scores(row, at.astype(np.int32)) >= spectral.SURGE_Z).sum()))
        series.close_days(START + (day + 1) * 24 + series.late_intervals)
    changed = 30 if not rest_days else 22  # the first active day that differs
    usual = sum(seen[14:changed]) / (changed - 14)
    assert min(seen[changed : changed + 3]) >= np.count_nonzero(after)
    assert max(seen[changed + 3 :]) <= usual + 2


def test_an_entity_never_seen_of_a_known_principal_is_news_not_warming_up() -> None:
    series, _ = filled(days=15)
    now = np.full(1, START + 15 * 24 + 3)
    assert series.z_scores(add(series, np.full(1, 99), now, np.ones(1)), now.astype(np.int32))[
        0
    ] == pytest.approx(5.0)


def test_a_principal_known_since_yesterday_is_warming_up() -> None:
    series = ActivitySeries(OPTIONS)
    now = np.full(1, START + 24)
    row = add(series, np.zeros(1), now, np.full(1, 1000.0))
    assert np.isnan(series.z_scores(row, now.astype(np.int32)))[0]


def test_a_silence_is_voted_when_its_interval_has_closed() -> None:
    series, _ = filled(days=15, rate=40.0)
    start = START + 15 * 24
    add(
        series, np.repeat(np.arange(2), 5), start + np.tile(np.arange(5), 2), np.full(10, 40.0)
    )  # the third is silent
    row, interval, z = series.silent_intervals(CHANNEL, start, start + 5)
    assert set(series.owner[row].tolist()) == {2}
    assert interval.tolist() == list(range(start, start + 5))
    assert (z >= OPTIONS.threshold).all()


def test_what_no_window_sees_is_forgotten() -> None:
    series, _ = filled(days=OPTIONS.history_days + 10)
    keys, _ = series.past.compact()
    assert (keys & 0xFFFFFFFF).min() >= START + (8 - 1) * 24


def test_a_scorer_state_that_was_put_away_expects_the_same() -> None:
    series, _ = filled(days=15)
    again = ActivitySeries.from_arrays(OPTIONS, series.as_arrays())
    rows, now = np.arange(3, dtype=np.int32), np.full(3, START + 15 * 24 + 9, np.int32)
    np.testing.assert_array_equal(series.expected_counts(rows, now)[0], again.expected_counts(rows, now)[0])


def test_a_count_of_many_millions_grows_by_single_events() -> None:
    series, owner, now = ActivitySeries(OPTIONS), np.array([5]), np.array([START])
    row = add(series, owner, now, np.array([2**24]))
    for _ in range(10):
        add(series, owner, now, np.ones(1))
    assert series.counts(row, now) == 2**24 + 10
    again = ActivitySeries.from_arrays(OPTIONS, series.as_arrays())
    assert again.counts(row, now) == 2**24 + 10


@pytest.mark.parametrize("library", [np, fake_cupy])
def test_a_series_begins_with_the_earliest_record_whichever_came_first(library) -> None:
    """With the hour of a record that came late it is two days old, and has a forecast."""
    series, midnight = ActivitySeries(OPTIONS, library.asarray), START + 3 * 24
    owner, channel, weight = (library.asarray(np.full(2, each)) for each in (np.uint64(5), CHANNEL, 1.0))
    for interval, since in ((midnight - 48, midnight - 48), (midnight, midnight - 49)):
        at, begun = (library.asarray(np.full(2, each, np.int32)) for each in (interval, since))
        keys = series.add_counts(owner, channel, at, begun, weight)
    row = series.find_rows(keys)
    assert not library.isnan(series.z_scores(row, at)).any()


def test_a_forecast_is_put_away_as_it_was_made_even_if_late_records_changed_the_past_since() -> None:
    series, _ = filled(days=15)
    rows, now = np.arange(3, dtype=np.int32), np.full(3, START + 15 * 24 + 9, np.int32)
    expected = series.expected_counts(rows, now)[0]
    add(series, np.arange(3), np.full(3, START + 14 * 24 + 9), np.full(3, 50.0))
    again = ActivitySeries.from_arrays(OPTIONS, series.as_arrays())
    np.testing.assert_array_equal(again.expected_counts(rows, now)[0], expected)
    for one in (series, again):
        one.close_days(START + 16 * 24 + series.late_intervals)
    np.testing.assert_array_equal(
        again.dense_counts(rows, START, START + 400), series.dense_counts(rows, START, START + 400)
    )


def test_few_series_of_a_device_come_to_the_host_with_all_that_they_know() -> None:
    here, _ = filled(days=15)
    now = np.full(3, START + 15 * 24 + 9, np.int32)
    rows = add(here, np.arange(3), now, np.array([40.0, 2.0, 9.0]))
    before = here.z_scores(rows, now)  # the forecasts of the day are made
    add(
        here, np.arange(3), now - 24, np.full(3, 90.0)
    )  # and its past changes afterwards, which must not move them
    far = ActivitySeries.from_arrays(OPTIONS, here.as_arrays(), fake_cupy.asarray)
    add(far, np.arange(3), now - 1, np.array([1.0, 2.0, 3.0]))
    add(here, np.arange(3), now - 1, np.array([1.0, 2.0, 3.0]))
    wanted = hashing.combine(np.array([2, 0, 9], np.uint64), CHANNEL)
    few = far.on_host(wanted)
    found = few.find_rows(wanted)
    assert (len(few.owner), found[2]) == (2, -1)
    np.testing.assert_array_equal(few.z_scores(found[:2], now[:2]), before[[2, 0]])
    for row, same in zip(found[:2], rows[[2, 0]], strict=True):
        mine, theirs = (
            each.curve(int(at), int(now[0]), 14, int(now[0]) + 1) for each, at in ((few, row), (here, same))
        )
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(one, other)
        assert few.owner_and_channel(int(row)) == here.owner_and_channel(int(same))
    assert here.on_host(wanted) is here
