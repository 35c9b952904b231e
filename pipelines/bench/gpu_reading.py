"""Rows of the GPU's bench: bytes to events, and on to codes. The records are real, the same ones again and again."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice

from fingerprint.compute.backend import Backend
from fingerprint.core.settings import Entities
from fingerprint.features import encoding
from fingerprint.sources.cloudtrail import samples
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from pipelines.bench.gpu_report import BenchmarkSide, CpuAndDevice, Figure, GpuBenchmarkRow

DATASET = "real/invictus_stratus"
SIZES_MB = (10, 100, 1000)  # MB of records


def reading_rows(
    cpu: BenchmarkSide, device: BenchmarkSide, asked: argparse.Namespace
) -> Iterator[GpuBenchmarkRow]:
    """Records a second and GB a second, for inputs of several sizes."""
    for megabytes in SIZES_MB:
        lines = records_of_size(int(megabytes * asked.share * 1e6))
        for what, run in (("bytes to events", flatten_lines), ("bytes to codes", encode_lines)):
            over = partial(_for_each_batch, lines, run)
            yield GpuBenchmarkRow(
                f"{what}, {megabytes * asked.share:g} MB",
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
    """Lines of so many bytes, or a little more."""
    some = [line for line in samples.sample_lines(DATASET) if line]
    number = -(-size // (sum(map(len, some)) // len(some)))
    return list(islice(cycle(some), number))


def batches_of_size(lines: Sequence[bytes], size: int) -> Iterator[list[bytes]]:
    """The lines in their order, some `size` bytes at a time."""
    each = max(1, int(size / (sum(map(len, lines[:1000])) / len(lines[:1000]))))
    yield from (list(lines[start : start + each]) for start in range(0, len(lines), each))


def flatten_lines(lines: list[bytes], backend: Backend) -> None:
    flatten(split_lines(lines), backend.dataframe_library)


def encode_lines(lines: list[bytes], backend: Backend) -> None:
    encoding.encode_events(
        add_entity_columns(flatten(split_lines(lines), backend.dataframe_library).events, Entities())
    )


def _for_each_batch(lines: Sequence[bytes], run: Callable[[list[bytes], Backend], None], by: Backend) -> None:
    for part in batches_of_size(lines, by.batch_bytes):
        run(part, by)
