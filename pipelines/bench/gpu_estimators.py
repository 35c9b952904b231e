"""Rows of the GPU's bench for the estimators: forecasts of many series at once, and the training of networks.

Forecasts: the bytes that a forecast must move for each value of a series (counted below) give the used share of a device's
bandwidth. Training: fingerprints trained and events scored, each by a program in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import arrays
from fingerprint.compute.backend import Backend
from fingerprint.estimators import spectral
from pipelines.bench import fitting
from pipelines.bench import training as bench_training
from pipelines.bench.gpu_report import NOT_MEASURED, BenchmarkSide, CpuAndDevice, Figure, GpuBenchmarkRow

SERIES_COUNT = 10_000  # series that are drawn; a larger number repeats them
# Bytes for each value of a series; 280 of them are the 2 x 31 passes of bisection over powers and residuals
BYTES_PER_VALUE = 400
FORECAST_QUANTILE, HORIZON, GAP = 0.9, 24, 1
WEEKS, MONTHS = 504, 1440  # three weeks and two months of hours
TARGET_SECONDS = 1.0
ENTITY_COUNT = "10000"
MAX_CPU_NETS = 10_000  # a CPU takes too long for more
MILLION, MINUTES = 1_000_000, 10.0
MAX_SECONDS = 3600.0
NOTED_FIGURES = ("share_of_bandwidth", "share_of_arithmetic", "device_mib", "scored_device_mib", "scored_by")

Result = dict[str, Any]


# --- forecasts -----------------------------------------------------------------------------------------------------


def forecast_rows(
    cpu: BenchmarkSide, device: BenchmarkSide, options: argparse.Namespace
) -> Iterator[GpuBenchmarkRow]:
    """Yield rows of transforms and forecasts. A CPU gets a tenth of the series: its pace does not depend on their number."""
    for width in (WEEKS, MONTHS):
        some = synthetic_series(min(SERIES_COUNT, max(1, int(SERIES_COUNT * options.share))), width)
        at_once = max(1, int(1_000_000 * options.share))
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
    """Return series of counts with a daily rhythm (`rows`, `width`), of which a few are busy."""
    random = np.random.default_rng(0)
    rhythm = np.clip(np.sin(np.arange(width) * 2 * np.pi / 24), 0, None)
    counts: NDArray[np.float32] = random.poisson(random.gamma(0.5, 3, (rows, 1)) * rhythm).astype(np.float32)
    return counts


def _forecast_run(run: Callable[[Any], Any], some: NDArray[np.float32], times: int, by: Backend) -> Any:
    return run(_place_series(some, times, by))


_placed_series: dict[tuple[Any, ...], Any] = {}


def _place_series(some: NDArray[np.float32], times: int, by: Backend) -> Any:
    """Return `times` copies of the series on the device of the backend.

    The copies of the last call are kept, so that further runs do not count the copying.
    """
    key = (by.array_library, times, some.shape)
    if key not in _placed_series:
        _placed_series.clear()
        there = by.to_device(some)
        _placed_series[key] = arrays.namespace(there).concatenate([there] * times) if times > 1 else there
    return _placed_series[key]


def _fourier_transforms(series: Any) -> None:
    """Transform all at once on a device; on the CPU as many at a time as `spectral` takes."""
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
    moved = BYTES_PER_VALUE * series.shape[0] * series.shape[1] / taken / 1e12
    return Figure(taken, notes={"TB_a_second_by_count": round(moved, 2), **paced.notes})


# --- training ------------------------------------------------------------------------------------------------------


class BenchmarkProgram(NamedTuple):
    """A bench that is a program: its module, its options before the count, and the file of its figures."""

    name: str
    options: tuple[str, ...]
    results_file: Path


FITTING = BenchmarkProgram("pipelines.bench.fitting", ("--nets",), fitting.RESULTS_FILE)
TRAINING = BenchmarkProgram(
    "pipelines.bench.training",
    ("--processes", str(os.cpu_count() or 1), "--entities"),
    bench_training.RESULTS_FILE,
)


def training_rows(
    cpu: BenchmarkSide, device: BenchmarkSide, options: argparse.Namespace
) -> Iterator[GpuBenchmarkRow]:
    """Yield rows of networks fitted and nothing else; history to bank; events scored by the bank's networks, drawn at random."""
    for number in (int(each) for each in (options.entities or ENTITY_COUNT).split(",")):
        many = max(1, int(number * options.share))
        aims = (MILLION / MINUTES / 60, MINUTES * 60) if number == MILLION else (None, None)
        fitted = CpuAndDevice(*map(_models_figure, _run_on_both(FITTING, cpu, device, many)))
        yield GpuBenchmarkRow(f"{many:,} nets fitted, nothing else", "models/s", fitted, aims[0])
        trained = _run_on_both(TRAINING, cpu, device, many)
        yield GpuBenchmarkRow(
            f"{many:,} entities, history to bank",
            "s",
            CpuAndDevice(*map(_seconds_figure, trained)),
            aims[1],
            True,
        )
        yield GpuBenchmarkRow(
            f"{many:,} entities, events scored", "events/s", CpuAndDevice(*map(_scoring_figure, trained))
        )


def _run_on_both(
    program: BenchmarkProgram, cpu: BenchmarkSide, device: BenchmarkSide, many: int
) -> tuple[Result, Result]:
    return _run_program(program, cpu, many, "cpu"), _run_program(program, device, many, "cuda")


def _run_program(program: BenchmarkProgram, side: BenchmarkSide, many: int, device: str) -> Result:
    """Return the result of a program, or `skipped` with the reason for none."""
    if device == "cpu" and many > MAX_CPU_NETS:
        return {
            "skipped": f"takes a CPU too long to be done beside (docs/explanation/performance.md: {bench_training.ENTITIES:,})"
        }
    result: Result = {}

    def run(_: Backend) -> Figure:
        result.update(_run_process(program, many, device, side.deadline - time.monotonic()))
        return Figure(1.0)

    figure = side.figure(run)
    return result or {"skipped": figure.why.removeprefix(f"{NOT_MEASURED}: ")}


def _run_process(program: BenchmarkProgram, many: int, device: str, left: float) -> Result:
    command = [sys.executable, "-m", program.name, "--device", device, *program.options, str(many)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
    try:
        code = process.wait(min(left, MAX_SECONDS))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # it has children
    if code:
        raise RuntimeError(f"{' '.join(command[1:])} ended with {code}")
    result: Result = json.loads(program.results_file.read_text())[f"{many} on {device}"]
    return result


def _models_figure(result: Result) -> Figure:
    return _figure(result, "models_a_second")


def _seconds_figure(result: Result) -> Figure:
    if "seconds" not in result:
        return _skipped_figure(result)
    stages = {f"{name}_s": round(value) for name, value in result["seconds_by_stage"].items()}
    return Figure(result["seconds"], notes={**stages, "host_MiB": result["peak_mib"]})


def _scoring_figure(result: Result) -> Figure:
    if "seconds" in result and "scored_rows_a_second" not in result:
        return Figure(None, "only measured on a device")
    return _figure(result, "scored_rows_a_second")


def _figure(result: Result, name: str) -> Figure:
    if name not in result:
        return _skipped_figure(result)
    return Figure(
        result[name], notes={note: result[note] for note in NOTED_FIGURES if result.get(note) is not None}
    )


def _skipped_figure(result: Result) -> Figure:
    return Figure(None, f"{NOT_MEASURED}: {result.get('skipped', 'it says nothing of this')}")
