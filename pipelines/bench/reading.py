"""Rows of the reader: bytes to events, beside the ways in which a Python program would usually do it.

`json.loads` and `pandas.json_normalize` are the shortest way, and make a column of whatever occurs. msgspec with a typed
Struct decodes only the members that our columns are read from. It does less than our reader: a record with a value of another
type costs the whole batch, and a request's parameters, of which four columns are made, stay bytes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from fingerprint.sources.cloudtrail import schema
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.flatten import flatten
from pipelines.bench.report import benchmark, fastest_interleaved

REAL_DATA = Path(__file__).parents[2] / "data" / "real"
REPETITIONS = 7  # of the records: a full batch of the default size
_TYPES: dict[str, Any] = {"flag": bool | str | None}  # by the type of a column; the others are texts
_column_types = {column.path: column.type for column in schema.COLUMNS}


@cache
def reading_seconds() -> tuple[float, float, float]:
    """Return seconds a record of our reader, of msgspec and of json_normalize, for the same real records in one run."""
    file = REAL_DATA / "invictus_stratus" / "invictus_stratus.jsonl.gz"
    lines = [line for line in gzip.decompress(file.read_bytes()).split(b"\n") if line]
    many = lines * REPETITIONS  # json_normalize gains nothing from more
    decoder = msgspec.json.Decoder(typed_record(schema.record_structure()))
    ours, typed, obvious = fastest_interleaved(
        lambda: flatten(split_lines(many)),
        lambda: typed_events(decoder, many),
        lambda: pd.json_normalize([json.loads(line) for line in lines]),
    )
    return ours / len(many), typed / len(many), obvious / len(lines)


def typed_record(members: dict[str, Any], name: str = "Record") -> type[msgspec.Struct]:
    """Return a Struct of nested members, whose leaves are paths; each of them may be missing or null.

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
    """Return a table with a column for each path that our columns are read from, with times as times."""
    table = pd.DataFrame(dict(_columns([decoder.decode(line) for line in lines], schema.record_structure())))
    for path, kind in _column_types.items():
        if kind == "time":
            table[path] = pd.to_datetime(table[path], format="ISO8601", utc=True)
    return table


def _columns(records: Sequence[Any], members: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield path and values of each leaf; where a parent is missing, so is the value."""
    for member, below in members.items():
        values = [None if each is None else getattr(each, member) for each in records]
        if isinstance(below, dict):
            yield from _columns(values, below)
        else:
            yield below, values


@benchmark(
    "bytes to events, one core (split_lines and flatten)",
    "records/s",
    "json.loads and pandas.json_normalize",
    aim=20,
)
def reading_pace() -> tuple[float, float]:
    """Read bytes of JSON lines into the table of events, and into a table by the shortest way."""
    ours, _, obvious = reading_seconds()
    return 1 / ours, obvious / ours


@benchmark(
    "bytes to events, beside typed decoding", "records/s", "msgspec with a typed Struct, DataFrame", None
)
def typed_reading_pace() -> tuple[float, float]:
    """Compare our reader with typed decoding of the members that it reads; the value is our pace again."""
    ours, typed, _ = reading_seconds()
    return 1 / ours, typed / ours
