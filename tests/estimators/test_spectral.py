"""Did they do it as much, and when, as they usually do? The batched transform against a plain one, and what it must find."""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import load_settings
from fingerprint.estimators import spectral

DAY = np.array([0.0] * 8 + [6.0] * 9 + [0.0] * 7)  # nine hours of work


def plain_forecast(series: np.ndarray, horizon: int, quantile: float, gap: int) -> tuple[np.ndarray, float]:
    """One series at a time, as the published description says it: the obvious fake of `spectral.forecast`."""
    spectrum = np.fft.rfft(series)
    power = np.abs(spectrum[1:]) ** 2
    threshold = max(sorted(power)[min(int(quantile * len(power)), len(power) - 1)], 1e-9)
    kept = [
        spectrum[0],
        *(value if strong else 0 for value, strong in zip(spectrum[1:], power >= threshold, strict=True)),
    ]
    expected = np.clip(np.fft.irfft(kept, n=len(series)), 0, None)
    spread = 1.4826 * np.median(np.abs(series - expected))
    return np.array([expected[(gap + k) % len(series)] for k in range(horizon)]), spread


def test_the_batch_agrees_with_one_series_at_a_time() -> None:
    random = np.random.default_rng(1)
    series = random.poisson(random.gamma(1, 3, (40, 1)), (40, 24 * 14)).astype(float)
    ahead, spread = spectral.forecast(series, horizon=24, quantile=0.9, gap=1)
    for row, one in enumerate(series):
        wanted, wanted_spread = plain_forecast(one, 24, 0.9, 1)
        np.testing.assert_allclose(ahead[row], wanted, atol=1e-9)
        np.testing.assert_allclose(spread[row], wanted_spread, atol=1e-9)


def test_a_working_day_is_expected_at_its_hours() -> None:
    ahead, _ = spectral.forecast(np.tile(DAY, 14)[None], horizon=24, quantile=0.9)
    np.testing.assert_allclose(ahead[0], DAY, atol=1e-6)


def test_a_weekend_is_not_expected_to_be_a_working_day() -> None:
    week = np.concatenate([np.tile(DAY, 5), np.zeros(48)])
    ahead, _ = spectral.forecast(np.tile(week, 3)[None], horizon=7 * 24, quantile=0.9)
    assert ahead[0, 5 * 24 :].max() < ahead[0, : 5 * 24].max() / 3


def test_what_is_no_habit_is_clipped_and_a_window_of_three_days_has_none() -> None:
    days = np.tile(DAY, 7).reshape(7, 24)
    days[2, 3] = days[2:4, 4] = days[2:5, 5] = 100.0
    series = days.reshape(1, -1)
    clipped = spectral.clip_surges(series, 24).reshape(7, 24)
    assert clipped[2, 3] == pytest.approx(spectral.SURGE_Z * spectral.COUNT_FLOOR**0.5)
    assert (clipped[2:4, 4] < 1).all(), "on two days: none either"
    assert (clipped[2:5, 5] == 100).all(), "on three"
    np.testing.assert_array_equal(clipped[:, 6:], days[:, 6:])
    np.testing.assert_array_equal(spectral.clip_surges(series[:, :72], 24), series[:, :72])


@pytest.mark.parametrize("gap", [0, 2])
def test_recent_habit_is_the_least_of_the_last_three_active_days(gap: int) -> None:
    days = np.zeros((8, 24))
    days[[0, 1, 3, 6]] = np.array([9.0, 7.0, 5.0, 6.0])[:, None] * np.ones(24)
    series = np.roll(days.reshape(1, -1), gap) if gap else days.reshape(1, -1)
    got = spectral.recent_habit(series, 24, gap)
    np.testing.assert_array_equal(got[0], np.full(24, 5.0))
    assert not spectral.recent_habit(series[:, -96:], 24, gap).any(), "two active days are no habit"


def test_habits_are_the_same_in_every_library() -> None:
    torch = pytest.importorskip("torch")
    series = np.random.default_rng(3).poisson(0.7, (5, 24 * 7)).astype(np.float32)
    for function, more in ((spectral.clip_surges, ()), (spectral.recent_habit, (1,))):
        wanted = function(series, 24, *more)
        np.testing.assert_array_equal(function(torch.from_numpy(series), 24, *more).numpy(), wanted)
        np.testing.assert_array_equal(function(fake_cupy.asarray(series), 24, *more).get(), wanted)


def test_past_bursts_do_not_mask_a_new_one() -> None:
    quiet = np.random.default_rng(2).poisson(3.0, 24 * 21).astype(float)
    bursts = quiet.copy()
    bursts[[50, 200, 400]] = 60  # as they enter the past: clipped at the threshold
    for series in (quiet, bursts):
        ahead, spread = spectral.forecast(series[None], horizon=24, quantile=0.9)
        assert spectral.robust_z(np.array([100.0]), ahead[:, 5], spread, floor=0.04)[0] > 4


def test_a_flat_series_divides_by_nothing_and_a_first_call_is_news() -> None:
    ahead, spread = spectral.forecast(np.zeros((1, 24 * 14)), horizon=24, quantile=0.9)
    z = spectral.robust_z(np.array([1.0]), ahead[:, 0], spread, floor=0.04)
    assert z[0] == pytest.approx(5.0)  # 1 / sqrt(floor)


def test_a_silence_is_as_far_below_as_a_surge_is_above() -> None:
    ahead, spread = spectral.forecast(np.full((1, 24 * 14), 100.0), horizon=24, quantile=0.9)
    assert spectral.robust_z(np.array([0.0]), ahead[:, 3], spread, floor=0.04)[0] < -9


def test_the_threshold_is_what_the_vote_share_of_a_normal_distribution_exceeds() -> None:
    share = load_settings(environment={"FINGERPRINT_SPECTRAL__VOTE_SHARE": "0.05"})
    assert share.spectral.threshold == pytest.approx(1.6449, abs=1e-4)
    with pytest.raises(FingerprintError, match="vote_share"):
        load_settings(environment={"FINGERPRINT_SPECTRAL__VOTE_SHARE": "0"})


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_array_library_comes_from_the_arguments(library: str) -> None:
    arrays = pytest.importorskip(library)
    series = np.random.default_rng(3).poisson(2.0, (5, 48)).astype(np.float32)
    ahead, spread = spectral.forecast(arrays.asarray(series), horizon=24, quantile=0.9)
    plain, plain_spread = spectral.forecast(series, horizon=24, quantile=0.9)
    np.testing.assert_allclose(np.asarray(ahead), plain, atol=1e-4)
    np.testing.assert_allclose(np.asarray(spread), plain_spread, atol=1e-4)


def sparse(rows: int, width: int) -> np.ndarray:
    """Series of few calls, as most are."""
    random = np.random.default_rng(4)
    return random.poisson(random.gamma(0.5, 0.02, (rows, 1)), (rows, width)).astype(np.float32)


def test_rounding_does_not_choose_between_frequencies_of_the_same_power() -> None:
    """Two libraries' transforms round in their own ways; with few calls many powers are the same."""
    torch = pytest.importorskip("torch")
    series = sparse(500, 504)
    ahead, spread = spectral.forecast(series, horizon=24, quantile=0.9)
    other, other_spread = spectral.forecast(torch.asarray(series), horizon=24, quantile=0.9)
    np.testing.assert_allclose(other.numpy(), ahead, atol=1e-5)
    np.testing.assert_allclose(other_spread.numpy(), spread, atol=1e-5)


def test_one_call_is_expected_where_it_was_and_nowhere_else() -> None:
    once = np.zeros((1, 168), np.float32)
    once[0, 10] = 1
    ahead, spread = spectral.forecast(once, horizon=24, quantile=0.9)
    assert ahead[0].round(4).tolist() == [0.0] * 10 + [1.0] + [0.0] * 13
    assert spread[0] < 1e-6


@pytest.mark.parametrize(
    "room", [None, 7 * 168 * spectral.DEVICE_BYTES_PER_VALUE], ids=["much room", "room for seven"]
)
def test_on_a_device_the_answer_is_the_same_and_stays_there(
    room: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spectral, "_transforms", lambda xp: xp.fft)  # the fake device's are NumPy's
    series, count = sparse(40, 168), np.full(40, 3, np.float32)
    there = fake_cupy.asarray(series), fake_cupy.asarray(count)
    assert spectral.max_rows_per_transform(168, 7 * 168 * spectral.DEVICE_BYTES_PER_VALUE) == 7
    fake_cupy.moved.reset()
    ahead, spread = spectral.forecast(there[0], horizon=24, quantile=0.9, gap=1, memory_bytes=room)
    z = spectral.robust_z(there[1], ahead[:, 5], spread, floor=0.04)
    assert fake_cupy.moved.down == 0
    wanted, wanted_spread = spectral.forecast(series, horizon=24, quantile=0.9, gap=1)
    np.testing.assert_array_equal(ahead.get(), wanted)
    np.testing.assert_array_equal(spread.get(), wanted_spread)
    np.testing.assert_array_equal(z.get(), spectral.robust_z(count, wanted[:, 5], wanted_spread, floor=0.04))


@pytest.mark.parametrize("width", [24, 168, 504, 1440])
def test_scipys_transforms_forecast_what_numpys_do(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, spread = spectral.forecast(sparse(40, width), horizon=24, quantile=0.9)
    monkeypatch.setattr(spectral, "_transforms", lambda xp: xp.fft)
    theirs, their_spread = spectral.forecast(sparse(40, width), horizon=24, quantile=0.9)
    np.testing.assert_allclose(ahead, theirs, atol=1e-5)
    np.testing.assert_allclose(spread, their_spread, atol=1e-5)
    assert ahead.dtype == theirs.dtype == np.float32


def test_a_million_series_are_one_transform_on_a_device_of_80_gb() -> None:
    assert spectral.max_rows_per_transform(504, 70 * 10**9) > 1_000_000
    assert spectral.max_rows_per_transform(1440, 70 * 10**9) > 1_000_000
    assert spectral.max_rows_per_transform(1440, 0) == 1
