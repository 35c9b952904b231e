"""Did it do it as much, and when, as it usually does? Many series as one matrix: expected, residual, z.

Example:
    >>> day = np.array([0.0] * 8 + [5.0] * 8 + [0.0] * 8)
    >>> ahead, spread = forecast(np.tile(day, 14)[None, :], horizon=24, quantile=0.9)
    >>> bool(z(np.array([20.0]), ahead[:, 10], spread, floor=0.04)[0] > 4)       # twenty calls where five are usual
    True

The method is the published one (NVIDIA, "Detecting stolen AWS credentials": keep the strongest frequencies, invert, judge
the difference by a rolling z), with what makes it hold on a stream: it looks backwards only, its scale is robust (past
bursts do not mask a new one) and has a Poisson floor (a flat series never divides by zero).

Everything is written over the array namespace of its arguments: NumPy, CuPy or torch.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, is_numpy_namespace

Array = Any  # (series, intervals), of any array library

ROWS = 128  # series transformed together on a CPU: 128 x 1,440 x 4 B = 0.7 MB, which its cache holds
TO_SIGMA = 1.4826  # median absolute deviation -> standard deviation, for a normal distribution


def keep_strongest(series: Array, quantile: float) -> Array:
    """The part of each series that its strongest frequencies explain: (S, W) -> (S, W), never below zero.

    A frequency is kept when its power is above the `quantile` of the series' own powers; the mean always is.
    """
    xp = array_namespace(series)
    spectrum = xp.fft.rfft(series, axis=-1)
    power = xp.real(spectrum[:, 1:]) ** 2 + xp.imag(spectrum[:, 1:]) ** 2
    ranked = xp.sort(power, axis=-1, stable=False)
    place = min(int(quantile * ranked.shape[1]), ranked.shape[1] - 1)
    weak = power < xp.maximum(ranked[:, place : place + 1], xp.asarray(1e-9, dtype=power.dtype))
    spectrum[:, 1:] = xp.where(weak, xp.zeros_like(spectrum[:, 1:]), spectrum[:, 1:])
    return xp.clip(xp.fft.irfft(spectrum, n=series.shape[-1], axis=-1), 0, None)


def forecast(series: Array, horizon: int, quantile: float, gap: int = 0) -> tuple[Array, Array]:
    """Expected counts after the window, and the spread of what the window's residuals were.

    `series` is (S, W), oldest first, W a whole number of the periods that matter (days, weeks); `gap` intervals after the
    window are skipped, because late records may still change them. Kept frequencies repeat with the window, so what they
    say of interval W + k is what they say of interval k. Returns (S, horizon) expected counts and (S,) spreads, the
    residuals' robust standard deviation (1.4826 x median absolute deviation).
    """
    xp = array_namespace(series)
    places = xp.asarray([(gap + k) % series.shape[-1] for k in range(horizon)])
    rows = ROWS if is_numpy_namespace(xp) else max(series.shape[0], 1)  # a GPU wants all at once
    starts = range(0, max(series.shape[0], 1), rows)
    parts = [_forecast(series[start : start + rows], places, quantile) for start in starts]
    return xp.concat([ahead for ahead, _ in parts]), xp.concat([spread for _, spread in parts])


def _forecast(series: Array, places: Array, quantile: float) -> tuple[Array, Array]:
    xp = array_namespace(series)
    kept = keep_strongest(series, quantile)
    return xp.take(kept, places, axis=-1), TO_SIGMA * _median(xp.abs(series - kept))


def z(count: Array, expected: Array, spread: Array, floor: float) -> Array:
    """How far a count lies above what was expected, in robust standard deviations; below is negative.

    The scale is the larger of the residuals' spread and the Poisson root of the expected count (plus `floor`, so that a
    first call where nothing was ever expected has a finite z of 1/sqrt(floor)).
    """
    xp = array_namespace(count)
    return (count - expected) / xp.maximum(spread, xp.sqrt(expected + floor))


def _median(values: Array) -> Array:
    xp = array_namespace(values)
    ranked = xp.sort(values, axis=-1, stable=False)
    middle = values.shape[-1] // 2
    return (ranked[:, (values.shape[-1] - 1) // 2] + ranked[:, middle]) / 2
