"""Rows of the GPU's bench for the data path: bytes to events and codes, and the whole pipeline with the time of each stage.

Reading takes real records, which are repeated. The pipeline goes from bytes in memory to votes and alerts. Its input is the last
days of a simulated organisation and of copies with other account numbers (as in `organisations`), in the order of arrival. The
bank has learned the earlier days of all of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import cycle, islice

import pandas as pd
import pyarrow as pa

from fingerprint.adapters.files import read_sources
from fingerprint.compute.backend import Backend
from fingerprint.core.alert import Alert
from fingerprint.core.settings import Entities, Settings
from fingerprint.detection.batch import FRAME_COLUMNS
from fingerprint.features import encoding
from fingerprint.pipeline import DetectionPipeline
from fingerprint.registry.bank import Bank
from fingerprint.sources.cloudtrail import samples
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from fingerprint.state.pipeline_state import Counters, PipelineState
from fingerprint.state.scorer_state import ScorerState
from fingerprint.training import pipeline
from pipelines.bench.gpu_report import (
    BenchmarkSide,
    CpuAndDevice,
    Figure,
    GpuBenchmarkRow,
    PeakDeviceMemory,
    synchronize,
)
from pipelines.bench.organisations import STRIDE, organisation_files, read_events, replicate_events

DATASET = "real/invictus_stratus"
SIZES_MB = (10, 100, 1000)  # of records
PRINCIPALS, DAYS, LEARNED = 50, 14, 10
COPIES = 26  # organisations: about a million records
CPU_REDUCTION = 3  # organisations if only the CPU is measured
TARGET_EVENTS_PER_SECOND = 1e6  # events/s
STAGES = ("split", "flatten", "entities", "score", "alerts")
LINES_PER_BATCH = 500  # lines that are copied for all organisations before the next lines


# --- reading -------------------------------------------------------------------------------------------------------


def reading_rows(
    cpu: BenchmarkSide, device: BenchmarkSide, options: argparse.Namespace
) -> Iterator[GpuBenchmarkRow]:
    """Yield rows of records a second and GB a second, for inputs of several sizes."""
    for megabytes in SIZES_MB:
        lines = records_of_size(int(megabytes * options.share * 1e6))
        for what, run in (("bytes to events", flatten_lines), ("bytes to codes", encode_lines)):
            over = partial(_for_each_batch, lines, run)
            yield GpuBenchmarkRow(
                f"{what}, {megabytes * options.share:g} MB",
                "records/s",
                CpuAndDevice(_reading_pace(cpu, lines, over), _reading_pace(device, lines, over)),
            )


def _reading_pace(side: BenchmarkSide, lines: Sequence[bytes], run: Callable[[Backend], None]) -> Figure:
    figure = side.measure_pace(len(lines), run, times=2)
    if figure.value is None:
        return figure
    a_second = sum(map(len, lines)) / len(lines) * figure.value / 1e9
    return Figure(figure.value, notes={"GB_a_second": round(a_second, 3), **figure.notes})


def records_of_size(size: int) -> list[bytes]:
    """Return lines of `size` bytes, or a little more."""
    some = [line for line in samples.sample_lines(DATASET) if line]
    number = -(-size // (sum(map(len, some)) // len(some)))
    return list(islice(cycle(some), number))


def batches_of_size(lines: Sequence[bytes], size: int) -> Iterator[list[bytes]]:
    """Yield the lines in their order, some `size` bytes at a time."""
    each = max(1, int(size / (sum(map(len, lines[:1000])) / len(lines[:1000]))))
    yield from (list(lines[start : start + each]) for start in range(0, len(lines), each))


def flatten_lines(lines: list[bytes], backend: Backend) -> None:
    """Decode and flatten lines."""
    flatten(split_lines(lines), backend.dataframe_library)


def encode_lines(lines: list[bytes], backend: Backend) -> None:
    """Decode and flatten lines, and encode their features."""
    encoding.FEATURE_SET.encode(
        add_entity_columns(flatten(split_lines(lines), backend.dataframe_library).events, Entities())
    )


def _for_each_batch(lines: Sequence[bytes], run: Callable[[list[bytes], Backend], None], by: Backend) -> None:
    for part in batches_of_size(lines, by.batch_bytes):
        run(part, by)


# --- the whole pipeline ---------------------------------------------------------------------------------------------


def pipeline_rows(
    cpu: BenchmarkSide, device: BenchmarkSide, options: argparse.Namespace
) -> Iterator[GpuBenchmarkRow]:
    """Yield the row of events a second, with the seconds of each stage as notes."""
    copies = max(1, int(COPIES * options.share)) if device.backend else CPU_REDUCTION
    figures = CpuAndDevice(*(side.figure(lambda by: measure_pipeline(copies, by)) for side in (cpu, device)))
    yield GpuBenchmarkRow(
        f"bytes to votes, {copies} organisations", "events/s", figures, aim=TARGET_EVENTS_PER_SECOND
    )


def measure_pipeline(copies: int, backend: Backend) -> Figure:
    """Score all records once, after a warm-up with some of them."""
    lines, bank = _benchmark_input(copies)
    _run_pipeline(lines[: len(lines) // 20], bank, backend)
    with PeakDeviceMemory(backend) as notes:
        core = time.process_time()
        seconds, tally = _run_pipeline(lines, bank, backend)
        notes["core_s"] = round(time.process_time() - core, 2)
    notes |= {f"{name}_s": round(value, 2) for name, value in seconds.items()}
    notes |= {"votes": sum(tally.votes.values()), "alerts": tally.alerts}
    return Figure(tally.events / sum(seconds.values()), notes=notes)


def _run_pipeline(lines: Sequence[bytes], bank: Bank, backend: Backend) -> tuple[dict[str, float], Counters]:
    settings = Settings()
    placed = bank.on(backend.to_device)
    detection = TimedPipeline(
        placed,
        PipelineState(ScorerState.from_arrays(settings, bank.scorer_state, backend.to_device)),
        settings,
    )
    clock = detection.clock = StageTimer(backend)
    for part in batches_of_size(lines, backend.batch_bytes):
        records = split_lines(part)
        clock.record_stage("split")
        flat = flatten(records, backend.dataframe_library)
        clock.record_stage("flatten")
        events = add_entity_columns(flat.events, settings.entities)
        clock.record_stage("entities")
        detection.process(events)
        clock.record_stage("score")
    detection.flush()
    clock.record_stage("score")
    return clock.seconds, detection.counters


class StageTimer:
    """Seconds by stage; a device is synchronised at the end of each stage."""

    def __init__(self, backend: Backend) -> None:
        self.backend, self.seconds = backend, dict.fromkeys(STAGES, 0.0)
        synchronize(backend)
        self.at = time.perf_counter()

    def record_stage(self, stage: str) -> None:
        """Add the time since the last call to a stage."""
        synchronize(self.backend)
        now = time.perf_counter()
        self.seconds[stage] += now - self.at
        self.at = now


class TimedPipeline(DetectionPipeline):
    """The pipeline, with the building of alerts as a stage of its own: an organisation under attack has many."""

    clock: StageTimer

    def _close_alerts(self, before: int | None) -> list[Alert]:
        self.clock.record_stage("score")
        alerts = super()._close_alerts(before)
        self.clock.record_stage("alerts")
        return alerts


# --- its input ---------------------------------------------------------------------------------------------------------


@cache
def _benchmark_input(copies: int) -> tuple[list[bytes], Bank]:
    settings = Settings()
    with organisation_files(PRINCIPALS, DAYS) as days:
        learned = pd.concat(read_events(days[:LEARNED], settings, FRAME_COLUMNS), ignore_index=True)
        lines = [line for records in read_sources(days[LEARNED:], settings.reading) for line in records.lines]
    accounts = {str(each)[:12] for each in learned["recipient_account"].dropna().unique()}
    some = pa.Table.from_pandas(learned, preserve_index=False)
    return replicate_organisations(lines, accounts, copies), pipeline.train(
        replicate_events(some, copies), settings
    )


def replicate_organisations(lines: Sequence[bytes], accounts: set[str], copies: int) -> list[bytes]:
    """Return the lines of `copies` organisations.

    Only account numbers differ, so each copy has its own principals, and its records are no repeats of other copies.
    """
    out: list[bytes] = []
    for start in range(0, len(lines), LINES_PER_BATCH):
        part = b"\n".join(lines[start : start + LINES_PER_BATCH])
        for copy in range(copies):
            out += _with_copied_accounts(part, accounts, copy).split(b"\n")
    return out


def _with_copied_accounts(text: bytes, accounts: set[str], copy: int) -> bytes:
    for account in sorted(accounts) if copy else ():
        text = text.replace(account.encode(), b"%012d" % ((int(account) + copy * STRIDE) % 10**12))
    return text
