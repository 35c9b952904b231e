"""Rows of the GPU's bench: fingerprints trained and events scored, each by a bench of its own, in a process of its own."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from fingerprint.compute.backend import Backend
from pipelines.bench import fitting
from pipelines.bench import training as bench_training
from pipelines.bench.gpu_report import NOT_MEASURED, BenchmarkSide, CpuAndDevice, Figure, GpuBenchmarkRow

ENTITY_COUNT = "10000"
CPU_NETS = 10_000  # more of them take a CPU too long to be done beside
MILLION, MINUTES = 1_000_000, 10.0
MAX_SECONDS = 3600.0  # seconds
NOTED_FIGURES = ("share_of_bandwidth", "share_of_arithmetic", "device_mib", "scored_device_mib", "scored_by")
Result = dict[str, Any]


class BenchmarkProgram(NamedTuple):
    """A bench of its own: its module, how it is told how many, where it leaves its figures."""

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
    cpu: BenchmarkSide, device: BenchmarkSide, asked: argparse.Namespace
) -> Iterator[GpuBenchmarkRow]:
    """Nets fitted and nothing else; history to bank; and events scored by the bank's nets, drawn at random."""
    for number in (int(each) for each in (asked.entities or ENTITY_COUNT).split(",")):
        many = max(1, int(number * asked.share))
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
    """What the program says, or why it says nothing under `skipped`."""
    if device == "cpu" and many > CPU_NETS:
        return {
            "skipped": f"takes a CPU too long to be done beside (docs/explanation/performance.md: {bench_training.ENTITIES:,})"
        }
    told: Result = {}

    def run(_: Backend) -> Figure:
        told.update(_run_process(program, many, device, side.deadline - time.monotonic()))
        return Figure(1.0)

    figure = side.figure(run)
    return told or {"skipped": figure.why.removeprefix(f"{NOT_MEASURED}: ")}


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
