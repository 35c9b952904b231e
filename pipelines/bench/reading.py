"""Rows of the reader: bytes to events, beside the usual ways of a Python program.

- `json.loads` and `pandas.json_normalize` are the shortest way, and make a column of every member.
- msgspec with a typed Struct decodes only the members of our columns. It does less than our reader: a value of another type costs
  the whole batch, and the parameters of a request, which are the source of three columns, stay bytes.
- Polars with a schema of the same members does as much as msgspec: flags and texts become texts, and parameters stay JSON.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pandas as pd

from fingerprint.sources.cloudtrail import schema
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.flatten import flatten
from pipelines.bench.report import benchmark, fastest_interleaved

REAL_DATA = Path(__file__).parents[2] / "data" / "real"
REPETITIONS = 7  # of the records, which makes a full batch of the default size
_TYPES: dict[str, Any] = {"flag": bool | str | None}  # by the type of a column; all others are texts
_column_types = {column.path: column.type for column in schema.COLUMNS}


class ReadingSeconds(NamedTuple):
    """Seconds for each record, by way of reading."""

    ours: float
    msgspec: float
    polars: float
    json_normalize: float


@cache
def reading_seconds() -> ReadingSeconds:
    """Measure our reader and the others on the same real records in one run, each on one core."""
    file = REAL_DATA / "invictus_stratus" / "invictus_stratus.jsonl.gz"
    lines = [line for line in gzip.decompress(file.read_bytes()).split(b"\n") if line]
    many = lines * REPETITIONS  # json_normalize gains nothing from more
    decoder = msgspec.json.Decoder(typed_record(schema.record_structure()))
    ours, typed, columns, obvious = fastest_interleaved(
        lambda: flatten(split_lines(many)),
        lambda: typed_events(decoder, many),
        lambda: polars_events(many),
        lambda: pd.json_normalize([json.loads(line) for line in lines]),
    )
    return ReadingSeconds(ours / len(many), typed / len(many), columns / len(many), obvious / len(lines))


def typed_record(members: dict[str, Any], name: str = "Record") -> type[msgspec.Struct]:
    """Return a Struct type for nested members, whose leaves are paths; each member may be missing or null.

    Example:
        >>> Record = typed_record({"userIdentity": {"type": "userIdentity.type"}})
        >>> msgspec.json.decode(b'{"userIdentity": {"type": "Root"}, "more": 1}', type=Record).userIdentity.type
        'Root'
    """
    return msgspec.defstruct(name, [_field(member, below) for member, below in members.items()])


def _field(member: str, below: dict[str, Any] | str) -> tuple[str, Any, Any]:
    """Return name, type and default of a member."""
    if isinstance(below, dict):
        return member, typed_record(below, member) | None, None
    if below == schema.PARAMETERS:
        return member, msgspec.Raw, msgspec.Raw()
    return member, _TYPES.get(_column_types.get(below, ""), str | None), None


def typed_events(decoder: msgspec.json.Decoder[Any], lines: Sequence[bytes]) -> pd.DataFrame:
    """Return a pandas table with a column for each path of our columns; times are parsed."""
    table = pd.DataFrame(dict(_columns([decoder.decode(line) for line in lines], schema.record_structure())))
    for path, kind in _column_types.items():
        if kind == "time":
            table[path] = pd.to_datetime(table[path], format="ISO8601", utc=True)
    return table


def _columns(records: Sequence[Any], members: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield path and values of each leaf; a value is None if a parent is missing."""
    for member, below in members.items():
        values = [None if each is None else getattr(each, member) for each in records]
        if isinstance(below, dict):
            yield from _columns(values, below)
        else:
            yield below, values


def polars_events(lines: Sequence[bytes]) -> Any:
    """Return a Polars table with a column for each path of our columns; times are parsed."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    import polars as pl  # it reads that number when it is imported

    members = schema.record_structure()
    read = pl.read_ndjson(io.BytesIO(b"\n".join(lines)), schema=_polars_fields(members))
    times = [path for path, kind in _column_types.items() if kind == "time"]
    return read.select(_polars_columns(members)).with_columns(
        pl.col(times).str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC", strict=False)
    )


def _polars_fields(members: dict[str, Any]) -> dict[str, Any]:
    import polars as pl

    return {
        member: pl.Struct(_polars_fields(below)) if isinstance(below, dict) else pl.String
        for member, below in members.items()
    }


def _polars_columns(members: dict[str, Any], parent: Any = None) -> Iterator[Any]:
    """Yield the expression of each leaf, named by its path."""
    import polars as pl

    for member, below in members.items():
        value = pl.col(member) if parent is None else parent.struct.field(member)
        if isinstance(below, dict):
            yield from _polars_columns(below, value)
        else:
            yield value.alias(below)


@benchmark(
    "bytes to events, one core (split_lines and flatten)",
    "records/s",
    "json.loads and pandas.json_normalize",
    aim=25,
)
def reading_pace() -> tuple[float, float]:
    """Read bytes of JSON lines into the table of events, and into a table by the shortest way."""
    measured = reading_seconds()
    return 1 / measured.ours, measured.json_normalize / measured.ours


@benchmark(
    "bytes to events, beside typed decoding", "records/s", "msgspec with a typed Struct, DataFrame", None
)
def typed_reading_pace() -> tuple[float, float]:
    """Compare our reader with typed decoding of the members that it reads; the value is our pace again."""
    measured = reading_seconds()
    return 1 / measured.ours, measured.msgspec / measured.ours


@benchmark("bytes to events, beside typed columns", "records/s", "polars with a schema", None)
def polars_reading_pace() -> tuple[float, float]:
    """Compare our reader with polars' of the members that it reads; the value is our pace again."""
    measured = reading_seconds()
    return 1 / measured.ours, measured.polars / measured.ours
