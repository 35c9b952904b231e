"""Rows of the GPU's bench: fingerprints trained and events scored, by `bench_training` in a process of its own."""

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
from typing import Any

from fingerprint.backend import Backend
from pipelines import bench_training
from pipelines.bench_gpu_rows import NEVER, Both, Figure, Row, Side

ENTITIES = "10000"
ON_A_CPU = 10_000  # more of them take a CPU too long to be done beside
MILLION, MINUTES = 1_000_000, 10.0
LONGEST = 3600.0  # seconds


def training(cpu: Side, device: Side, asked: argparse.Namespace) -> Iterator[Row]:
    """History to bank; and events scored by the bank's nets, which were drawn at random."""
    for number in (int(each) for each in (asked.entities or ENTITIES).split(",")):
        entities = max(1, int(number * asked.share))
        results = [_result(side, entities, name) for side, name in ((cpu, "cpu"), (device, "cuda"))]
        aim = MINUTES * 60 if number == MILLION else None
        yield Row(
            f"{entities:,} entities, history to bank",
            "s",
            Both(*map(_seconds, results)),
            aim=aim,
            at_most=True,
        )
        yield Row(f"{entities:,} entities, fingerprints fitted", "models/s", Both(*map(_models, results)))
        yield Row(f"{entities:,} entities, events scored", "events/s", Both(*map(_scored, results)))


def _result(side: Side, entities: int, device: str) -> dict[str, Any]:
    """What `bench_training` says, or why it says nothing under `skipped`."""
    if device == "cpu" and entities > ON_A_CPU:
        return {
            "skipped": f"takes a CPU too long to be measured beside: docs/performance.md has {bench_training.ENTITIES:,}"
        }
    told: dict[str, Any] = {}

    def run(_: Backend) -> Figure:
        told.update(_asked_of_process(entities, device, side.deadline - time.monotonic()))
        return Figure(1.0)

    figure = side.figure(run)
    return told or {"skipped": figure.why.removeprefix(f"{NEVER}: ")}


def _asked_of_process(entities: int, device: str, left: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "pipelines.bench_training", "--entities", str(entities)]
    command += ["--device", device, "--processes", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
    try:
        code = process.wait(min(left, LONGEST))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # it has children
    if code:
        raise RuntimeError(f"{' '.join(command[1:])} ended with {code}")
    result: dict[str, Any] = json.loads(bench_training.OUT.read_text())[f"{entities} on {device}"]
    return result


def _seconds(result: dict[str, Any]) -> Figure:
    if "seconds" not in result:
        return _none(result)
    stages = {name: round(value) for name, value in result["seconds_by_stage"].items()}
    return Figure(result["seconds"], notes={**stages, "host_MiB": result["peak_mib"]})


def _models(result: dict[str, Any]) -> Figure:
    """Fingerprints that are ready over the seconds of the stage that learns."""
    if "ready" not in result:
        return _none(result)
    return Figure(sum(result["ready"].values()) / max(result["seconds_by_stage"]["learn"], 0.1))


def _scored(result: dict[str, Any]) -> Figure:
    if "scored_rows_a_second" not in result:
        return Figure(None, "only measured on a device" if "seconds" in result else _none(result).why)
    kept = {"share_of_bandwidth", "share_of_arithmetic", "scored_device_mib", "device_mib"}
    notes = {name: value for name, value in result.items() if name in kept and value is not None}
    return Figure(result["scored_rows_a_second"], notes=notes)


def _none(result: dict[str, Any]) -> Figure:
    return Figure(None, f"{NEVER}: {result.get('skipped', 'it says nothing of this')}")
