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
from pipelines.bench.gpu_report import NEVER, Both, Figure, Row, Side

ENTITIES = "10000"
ON_A_CPU = 10_000  # more of them take a CPU too long to be done beside
MILLION, MINUTES = 1_000_000, 10.0
LONGEST = 3600.0  # seconds
NOTED = ("share_of_bandwidth", "share_of_arithmetic", "device_mib", "scored_device_mib", "scored_by")
Result = dict[str, Any]


class Program(NamedTuple):
    """A bench of its own: its module, how it is told how many, where it leaves its figures."""

    name: str
    options: tuple[str, ...]
    out: Path


FITTING = Program("pipelines.bench.fitting", ("--nets",), fitting.OUT)
TRAINING = Program(
    "pipelines.bench.training",
    ("--processes", str(os.cpu_count() or 1), "--entities"),
    bench_training.OUT,
)


def training(cpu: Side, device: Side, asked: argparse.Namespace) -> Iterator[Row]:
    """Nets fitted and nothing else; history to bank; and events scored by the bank's nets, drawn at random."""
    for number in (int(each) for each in (asked.entities or ENTITIES).split(",")):
        many = max(1, int(number * asked.share))
        aims = (MILLION / MINUTES / 60, MINUTES * 60) if number == MILLION else (None, None)
        fitted = Both(*map(_models, _both(FITTING, cpu, device, many)))
        yield Row(f"{many:,} nets fitted, nothing else", "models/s", fitted, aims[0])
        trained = _both(TRAINING, cpu, device, many)
        yield Row(f"{many:,} entities, history to bank", "s", Both(*map(_seconds, trained)), aims[1], True)
        yield Row(f"{many:,} entities, events scored", "events/s", Both(*map(_scored, trained)))


def _both(program: Program, cpu: Side, device: Side, many: int) -> tuple[Result, Result]:
    return _result(program, cpu, many, "cpu"), _result(program, device, many, "cuda")


def _result(program: Program, side: Side, many: int, device: str) -> Result:
    """What the program says, or why it says nothing under `skipped`."""
    if device == "cpu" and many > ON_A_CPU:
        return {
            "skipped": f"takes a CPU too long to be done beside (docs/performance.md: {bench_training.ENTITIES:,})"
        }
    told: Result = {}

    def run(_: Backend) -> Figure:
        told.update(_of_process(program, many, device, side.deadline - time.monotonic()))
        return Figure(1.0)

    figure = side.figure(run)
    return told or {"skipped": figure.why.removeprefix(f"{NEVER}: ")}


def _of_process(program: Program, many: int, device: str, left: float) -> Result:
    command = [sys.executable, "-m", program.name, "--device", device, *program.options, str(many)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
    try:
        code = process.wait(min(left, LONGEST))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # it has children
    if code:
        raise RuntimeError(f"{' '.join(command[1:])} ended with {code}")
    result: Result = json.loads(program.out.read_text())[f"{many} on {device}"]
    return result


def _models(result: Result) -> Figure:
    return _figure(result, "models_a_second")


def _seconds(result: Result) -> Figure:
    if "seconds" not in result:
        return _none(result)
    stages = {f"{name}_s": round(value) for name, value in result["seconds_by_stage"].items()}
    return Figure(result["seconds"], notes={**stages, "host_MiB": result["peak_mib"]})


def _scored(result: Result) -> Figure:
    if "seconds" in result and "scored_rows_a_second" not in result:
        return Figure(None, "only measured on a device")
    return _figure(result, "scored_rows_a_second")


def _figure(result: Result, name: str) -> Figure:
    if name not in result:
        return _none(result)
    return Figure(result[name], notes={note: result[note] for note in NOTED if result.get(note) is not None})


def _none(result: Result) -> Figure:
    return Figure(None, f"{NEVER}: {result.get('skipped', 'it says nothing of this')}")
