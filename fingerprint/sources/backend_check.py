"""Self-check of a backend: it must read the check records exactly as pandas does.

Example:
    >>> first_difference("cudf")
    "record 12: user_agent is 'aws-cli/2.0' by pandas, None by cudf"

Libraries change, and a driver may be untested. So before a device reads real records, it reads the check records of the log
source (`LogSource.check_batches`). Each reject, event, entity, code and dedup key must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import arrays, frames
from fingerprint.core.alert import Reject
from fingerprint.core.settings import Entities
from fingerprint.features import encoding
from fingerprint.sources.active import SOURCE
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import dedup_key, flatten


class BackendOutput(NamedTuple):
    """The result of reading lines: events with their entities on the host, `codes` (N, F), `keys` (N,), and rejects."""

    rejects: list[Reject]
    skipped: int
    events: pd.DataFrame
    codes: NDArray[np.uint64]
    keys: NDArray[np.uint64]


def first_difference(dataframe_library: str) -> str | None:
    """Return the first difference between a backend and pandas in one sentence; None if there is none."""
    return next(_differences(dataframe_library), None)


def _differences(tables: str) -> Iterator[str]:
    for lines in SOURCE.check_batches():
        ours, theirs = (read_with_backend(lines, name) for name in ("pandas", tables))
        yield from _output_differences(ours, theirs, tables)


def read_with_backend(lines: Sequence[bytes], dataframe_library: str) -> BackendOutput:
    """Return the output of a backend for some lines, from records to codes."""
    flat = flatten(SOURCE.split_lines(lines), dataframe_library)
    events = add_entity_columns(flat.events, Entities())
    codes, keys = arrays.to_host(encoding.FEATURE_SET.encode(events)), arrays.to_host(dedup_key(events))
    return BackendOutput(flat.rejects, flat.skipped, frames.to_pandas(events), codes, keys)


def _output_differences(ours: BackendOutput, theirs: BackendOutput, tables: str) -> Iterator[str]:
    for one, other in zip_longest(ours.rejects, theirs.rejects):
        if one != other:
            yield f"a reject is {_format_value(one)} by pandas, {_format_value(other)} by {tables}"
    if ours.skipped != theirs.skipped:
        yield f"{ours.skipped} records are no events by pandas, {theirs.skipped} by {tables}"
    if len(ours.events) != len(theirs.events):
        yield f"{len(ours.events)} records are events by pandas, {len(theirs.events)} by {tables}"
        return
    yield from _column_differences(ours.events, theirs.events, tables)
    for name, one, other in (("code", ours.codes, theirs.codes), ("key", ours.keys, theirs.keys)):
        if not np.array_equal(one, other):
            places = np.argwhere(one != other)[0] if one.shape == other.shape else [0]
            what = f"the {name} of {encoding.FEATURE_NAMES[places[1]]}" if len(places) > 1 else f"the {name}"
            yield f"record {ours.events['row'].iloc[int(places[0])]}: {what} is not the same by pandas and {tables}"


def _column_differences(ours: pd.DataFrame, theirs: pd.DataFrame, tables: str) -> Iterator[str]:
    for name in ours.columns:
        if name not in theirs.columns:
            yield f"column {name} is missing by {tables}"
            continue
        pairs = zip(
            _comparable_values(ours[name]),
            _comparable_values(theirs[name]),
            ours["row"].tolist(),
            strict=True,
        )
        for one, other, row in pairs:
            if one != other:
                yield f"record {row}: {name} is {_format_value(one)} by pandas, {_format_value(other)} by {tables}"


def _comparable_values(column: pd.Series) -> list[Any]:
    """Return values that can be compared: every kind of missing value is None."""
    return [None if missing else value for value, missing in zip(column, column.isna(), strict=True)]


def _format_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]} ..."
