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
from fingerprint.sources.cloudtrail.identity import add_entities
from fingerprint.sources.flatten import flatten
from pipelines.bench.gpu_report import Both, Figure, Row, Side

SET = "real/invictus_stratus"
SIZES = (10, 100, 1000)  # MB of records


def reading(cpu: Side, device: Side, asked: argparse.Namespace) -> Iterator[Row]:
    """Records a second and GB a second, for inputs of several sizes."""
    for megabytes in SIZES:
        lines = records(int(megabytes * asked.share * 1e6))
        for what, run in (("bytes to events", events), ("bytes to codes", codes)):
            over = partial(_over, lines, run)
            yield Row(
                f"{what}, {megabytes * asked.share:g} MB",
                "records/s",
                Both(_pace(cpu, lines, over), _pace(device, lines, over)),
            )


def _pace(side: Side, lines: Sequence[bytes], run: Callable[[Backend], None]) -> Figure:
    figure = side.pace(len(lines), run, times=2)
    if figure.value is None:
        return figure
    a_second = sum(map(len, lines)) / len(lines) * figure.value / 1e9
    return Figure(figure.value, notes={"GB_a_second": round(a_second, 3), **figure.notes})


def records(size: int) -> list[bytes]:
    """Lines of so many bytes, or a little more."""
    some = [line for line in samples.lines(SET) if line]
    number = -(-size // (sum(map(len, some)) // len(some)))
    return list(islice(cycle(some), number))


def pieces(lines: Sequence[bytes], size: int) -> Iterator[list[bytes]]:
    """The lines in their order, some `size` bytes at a time."""
    each = max(1, int(size / (sum(map(len, lines[:1000])) / len(lines[:1000]))))
    yield from (list(lines[start : start + each]) for start in range(0, len(lines), each))


def events(lines: list[bytes], by: Backend) -> None:
    flatten(split_lines(lines), by.tables)


def codes(lines: list[bytes], by: Backend) -> None:
    encoding.encode(add_entities(flatten(split_lines(lines), by.tables).events, Entities()))


def _over(lines: Sequence[bytes], run: Callable[[list[bytes], Backend], None], by: Backend) -> None:
    for part in pieces(lines, by.piece_bytes):
        run(part, by)
