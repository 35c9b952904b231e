"""Spectral forecasts of many series as one matrix: expected counts, residual spread, robust z.

Example:
    >>> day = np.array([0.0] * 8 + [5.0] * 8 + [0.0] * 8)
    >>> ahead, spread = forecast(np.tile(day, 14)[None, :], horizon=24, quantile=0.9)
    >>> bool(robust_z(np.array([20.0]), ahead[:, 10], spread, floor=0.04)[0] > 4)       # twenty calls where five are usual
    True

The method is the published one (NVIDIA, "Detecting stolen AWS credentials": keep the strongest frequencies, invert, judge
the difference by a rolling z), adapted to a stream: it looks backwards only, its scale is robust (past bursts do not mask a new
one) and has a Poisson floor (a flat series never divides by zero).

Counts that come at the same time of `HABIT_DAYS` days are a habit. A surge that came on fewer days is clipped before it enters a
forecast (`clip_surges`), so that an attack does not teach the forecast to expect the next one. Counts that came on each of the
last three active days are expected (`recent_habit`). So a lasting change, such as a new workload or daylight saving time, is news
for three days, not until a window of three weeks has forgotten the time before.

All functions work with the array library of their arguments: NumPy, CuPy or torch. On a CPU a few rows are transformed at a time,
so that they stay in its cache; on a device all rows are, or as many as `memory_bytes` has room for.
"""

from __future__ import annotations

from typing import Any

import scipy.fft
from array_api_compat import array_namespace, is_numpy_namespace

from fingerprint.compute import order_statistics
from fingerprint.compute.arrays import Array

POWER_QUANTILE = 0.9  # of spectral power, above which frequencies are kept
# Poisson roots above the usual count at which a count is clipped; the negative z at which an interval is silent
SURGE_Z = 4.0
HABIT_DAYS = 3  # days on which something happens at the same time before it is a habit
COUNT_FLOOR = 0.04  # added to the expected count under the Poisson root

# Series transformed together on a CPU: 128 x 1,440 x 4 B = 0.7 MB, which its cache holds.
CPU_BLOCK_ROWS = 128
# Bytes that a device needs for each value of a forecast: spectrum 4, its copy 4, result 4, cuFFT's own 4, mask, and a reserve.
DEVICE_BYTES_PER_VALUE = 20
MAX_TRANSFORM_VALUES = 2**31 - 1  # values in one transform: cuFFT's plans count in 32 bits
# Powers that differ by a smaller share are equal: only the rounding of float32 tells them apart
POWER_TIE_TOLERANCE = 1e-3
MAD_TO_SIGMA = 1.4826  # median absolute deviation -> standard deviation, for a normal distribution


def keep_strongest_frequencies(series: Array, quantile: float) -> Array:
    """Return the part of each series that its strongest frequencies explain: (S, W) -> (S, W), never below zero.

    A frequency is kept if its power is at least the `quantile` of the series' own powers; the mean is always kept. Few calls make
    many equal powers (one call makes them all equal), so all powers that tie with the quantile are kept. Otherwise rounding would
    choose among them, and each library's transform rounds in its own way.
    """
    xp = array_namespace(series)
    transforms = _transforms(xp)
    spectrum = transforms.rfft(series, axis=-1)
    weak = _weak_frequencies(spectrum[:, 1:], quantile)
    nothing = xp.asarray(0, dtype=spectrum.dtype)
    spectrum[:, 1:] = xp.where(weak, nothing, spectrum[:, 1:])
    expected = transforms.irfft(spectrum, n=series.shape[-1], axis=-1)
    return xp.maximum(expected, xp.asarray(0, dtype=expected.dtype))  # `clip` would gather and scatter


def _transforms(xp: Any) -> Any:
    """Return SciPy's transforms for arrays of NumPy: they take several rows at once, NumPy's own one after the other."""
    return scipy.fft if is_numpy_namespace(xp) else xp.fft


def _weak_frequencies(spectrum: Array, quantile: float) -> Array:
    """Return the mask of frequencies to drop: (S, F) complex -> (S, F)."""
    xp = array_namespace(spectrum)
    power = xp.real(spectrum) ** 2 + xp.imag(spectrum) ** 2
    place = min(int(quantile * power.shape[1]), power.shape[1] - 1)
    least = order_statistics.kth_smallest(power, place) * (1 - POWER_TIE_TOLERANCE)
    return power < xp.maximum(least, xp.asarray(1e-9, dtype=power.dtype))


def forecast(
    series: Array, horizon: int, quantile: float, gap: int = 0, memory_bytes: int | None = None
) -> tuple[Array, Array]:
    """Return expected counts after the window, and the spread of the window's residuals.

    `series` is (S, W), oldest first, W a whole number of the periods that matter (days, weeks). `gap` intervals after the
    window are skipped, because late records may still change them. Kept frequencies repeat with the window, so their value at
    interval W + k is that at interval k. Returns (S, horizon) expected counts and (S,) spreads, the residuals' robust standard
    deviation (1.4826 x median absolute deviation). `memory_bytes` is the free memory of a device.
    """
    xp = array_namespace(series)
    places = xp.asarray([(gap + k) % series.shape[-1] for k in range(horizon)])
    rows = (
        CPU_BLOCK_ROWS if is_numpy_namespace(xp) else max_rows_per_transform(series.shape[-1], memory_bytes)
    )
    count = series.shape[0]
    blocks = [series[start : min(start + rows, count), :] for start in range(0, max(count, 1), rows)]
    parts = [_forecast(block, places, quantile) for block in blocks]
    return xp.concat([ahead for ahead, _ in parts]), xp.concat([spread for _, spread in parts])


def window_lengths(known: Array, day: int, max_days: int, warm_up_days: int) -> Array:
    """Return how many of `known` intervals (N,) are used: whole weeks if there is one, else whole days; 0 while warming up.

    >>> window_lengths(np.array([30, 47, 100, 200, 900]), 24, 14, 2).tolist()
    [0, 0, 96, 168, 336]
    """
    xp = array_namespace(known)
    days = xp.minimum(known // day, max_days)
    days = xp.where(days >= 7, days // 7 * 7, days)
    return xp.astype(xp.where(days >= warm_up_days, days * day, 0), known.dtype)


def clip_surges(series: Array, day: int) -> Array:
    """Return counts clipped to the largest that is no surge at their time of day: (S, W) -> (S, W), W a whole number of days.

    `day` is the number of intervals in a day. The usual count at a time of day is its HABIT_DAYS-th largest. In a
    window of at most HABIT_DAYS days nothing is clipped.
    """
    xp, days = array_namespace(series), series.shape[-1] // day
    if days <= HABIT_DAYS:
        return series
    by_time = xp.permute_dims(_by_day(series, day), (0, 2, 1))
    usual = order_statistics.kth_smallest(xp.reshape(by_time, (-1, days)), days - HABIT_DAYS)
    cap = xp.reshape(usual + SURGE_Z * xp.sqrt(usual + COUNT_FLOOR), (series.shape[0], 1, day))
    return xp.reshape(xp.minimum(_by_day(series, day), cap), series.shape)


def recent_habit(series: Array, day: int, gap: int = 0) -> Array:
    """Return the least count at each time of day on the last HABIT_DAYS active days: (S, W) -> (S, day); 0 if there are fewer.

    A day is active if anything was counted in it. Days end `gap` intervals after the window, so the last day lacks its last `gap`
    intervals; at these times of day the other days decide.
    """
    xp = array_namespace(series)
    unknown = xp.full((series.shape[0], gap), float("inf"), dtype=series.dtype)
    by_day = _by_day(xp.concat([series[:, gap:], unknown], axis=-1), day)
    active = xp.astype(xp.any((by_day > 0) & ~xp.isinf(by_day), axis=-1), xp.int32)
    # number of active days after each day
    after = xp.sum(active, axis=-1, keepdims=True) - xp.cumulative_sum(active, axis=-1)
    recent = (active > 0) & (after < HABIT_DAYS)
    least = xp.min(xp.where(recent[..., None], by_day, xp.asarray(float("inf"), dtype=series.dtype)), axis=1)
    enough = xp.sum(active, axis=-1, keepdims=True) >= HABIT_DAYS
    return xp.where(enough, least, xp.asarray(0, dtype=series.dtype))


def _by_day(series: Array, day: int) -> Array:
    return array_namespace(series).reshape(series, (series.shape[0], -1, day))


def max_rows_per_transform(width: int, memory_bytes: int | None) -> int:
    """Return how many series of `width` intervals a device transforms together; without `memory_bytes`, cuFFT's limit applies.

    Example:
        >>> max_rows_per_transform(504, 40 * 10**9)
        3968253
    """
    values = (
        MAX_TRANSFORM_VALUES
        if memory_bytes is None
        else min(MAX_TRANSFORM_VALUES, memory_bytes // DEVICE_BYTES_PER_VALUE)
    )
    return max(1, values // width)


def _forecast(series: Array, places: Array, quantile: float) -> tuple[Array, Array]:
    xp = array_namespace(series)
    kept = keep_strongest_frequencies(series, quantile)
    return xp.take(kept, places, axis=-1), MAD_TO_SIGMA * order_statistics.row_median(xp.abs(series - kept))


def robust_z(count: Array, expected: Array, spread: Array, floor: float) -> Array:
    """Return how far a count lies above the expected one, in robust standard deviations; negative if it lies below.

    The scale is the larger of the residuals' spread and the Poisson root of the expected count. `floor` is added under the root,
    so that a first call where nothing was ever expected has a finite z of 1/sqrt(floor).
    """
    xp = array_namespace(count)
    return (count - expected) / xp.maximum(spread, xp.sqrt(expected + floor))
