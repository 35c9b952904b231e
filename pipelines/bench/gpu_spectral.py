"""Rows of the GPU's bench: forecasts of many series at once, and the transforms in them alone.

The bytes that a forecast must move, by value of a series (docs/explanation/gpu-design.md counts them): the share of a
device's bandwidth follows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import arrays
from fingerprint.compute.backend import Backend
from fingerprint.estimators import spectral
from pipelines.bench.gpu_report import BenchmarkSide, CpuAndDevice, Figure, GpuBenchmarkRow

SERIES_COUNT = 10_000  # series that are drawn; more of them are these again
MEGABYTES_PER_CALL = (
    400  # bytes by value of a series: 2 x 31 passes of bisection over powers and residuals are 280 of them
)
FORECAST_QUANTILE, HORIZON, GAP = 0.9, 24, 1
WEEKS, MONTHS = 504, 1440  # three weeks and two months of hours
TARGET_SECONDS = 1.0


def forecast_rows(
    cpu: BenchmarkSide, device: BenchmarkSide, asked: argparse.Namespace
) -> Iterator[GpuBenchmarkRow]:
    """A CPU is asked for a tenth of them: its pace does not change with their number."""
    for width in (WEEKS, MONTHS):
        some = synthetic_series(min(SERIES_COUNT, max(1, int(SERIES_COUNT * asked.share))), width)
        at_once = max(1, int(1_000_000 * asked.share))
        for what, run in (("transforms there and back", _fourier_transforms), ("forecasts", _forecasts)):
            yield GpuBenchmarkRow(
                f"{what}, series of {width:,}",
                "series/s",
                CpuAndDevice(
                    cpu.measure_pace(len(some), partial(_forecast_run, run, some, 1)),
                    device.measure_pace(len(some) * 10, partial(_forecast_run, run, some, 10)),
                ),
            )
        yield GpuBenchmarkRow(
            f"{at_once:,} series x {width:,} in one transform",
            "s",
            CpuAndDevice(
                Figure(None, "see the row above"),
                device.figure(partial(_million_series, some, max(1, at_once // len(some)))),
            ),
            aim=TARGET_SECONDS,
            at_most=True,
        )


def synthetic_series(rows: int, width: int) -> NDArray[np.float32]:
    """Counts of a daily rhythm, some busy and most not."""
    random = np.random.default_rng(0)
    rhythm = np.clip(np.sin(np.arange(width) * 2 * np.pi / 24), 0, None)
    counts: NDArray[np.float32] = random.poisson(random.gamma(0.5, 3, (rows, 1)) * rhythm).astype(np.float32)
    return counts


def _forecast_run(run: Callable[[Any], Any], some: NDArray[np.float32], times: int, by: Backend) -> Any:
    return run(_place_series(some, times, by))


_placed_series: dict[tuple[Any, ...], Any] = {}


def _place_series(some: NDArray[np.float32], times: int, by: Backend) -> Any:
    """So many copies of the series where the backend's arrays lie; those of the last question are kept, so that a second run does
    not count their making."""
    key = (by.array_library, times, some.shape)
    if key not in _placed_series:
        _placed_series.clear()
        there = by.to_device(some)
        _placed_series[key] = arrays.namespace(there).concatenate([there] * times) if times > 1 else there
    return _placed_series[key]


def _fourier_transforms(series: Any) -> None:
    """All at once on a device; on the CPU as many at a time as `spectral` takes."""
    xp = arrays.namespace(series)
    rows = spectral.CPU_BLOCK_ROWS if arrays.is_on_host(series) else len(series)
    for start in range(0, len(series), rows):
        xp.fft.irfft(xp.fft.rfft(series[start : start + rows], axis=-1), n=series.shape[-1], axis=-1)


def _forecasts(series: Any, room: int | None = None) -> Any:
    return spectral.forecast(series, HORIZON, FORECAST_QUANTILE, GAP, room)


def _million_series(some: NDArray[np.float32], times: int, by: Backend) -> Figure:
    series = _place_series(some, times, by)
    room = by.device_info.free - series.nbytes if by.device_info else None
    paced = BenchmarkSide(by).measure_pace(len(series), lambda by: _forecasts(series, room))
    if paced.value is None:
        return paced
    taken = len(series) / paced.value
    moved = MEGABYTES_PER_CALL * series.shape[0] * series.shape[1] / taken / 1e12
    return Figure(taken, notes={"TB_a_second_by_count": round(moved, 2), **paced.notes})
