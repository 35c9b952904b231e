"""Encode state as bytes and back: arrays as safetensors, tables as Arrow. Data, never code.

Example:
    >>> unpack_arrays(pack_arrays({"key": np.arange(3)}))["key"]
    array([0, 1, 2])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fingerprint.compute import frames
from fingerprint.compute.arrays import Arrays
from fingerprint.compute.frames import Frame
from fingerprint.core.errors import FingerprintError
from fingerprint.state.event_batch import ARRAY_FIELDS, EventBatch


def pack_arrays(named: Arrays) -> bytes:
    """Return arrays by name as bytes; arrays may be empty."""
    return save({name: np.ascontiguousarray(array) for name, array in named.items()})


def unpack_arrays(packed: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays that were packed. Raises FingerprintError where the bytes cannot be read."""
    try:
        return load(packed)
    except (SafetensorError, ValueError, KeyError) as error:
        raise FingerprintError(f"state cannot be read: {error}") from None


def pack_table(frame: Frame) -> bytes:
    """Return a table with its types as bytes, without its index, and with its columns sorted by name."""
    frame = frames.with_object_texts(frames.to_pandas(frame))
    frame = frame[sorted(frame.columns)]
    table = pa.Table.from_pandas(frame, preserve_index=False)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def unpack_table(packed: bytes) -> pd.DataFrame:
    """Return the table that was packed, with texts as objects. Raises FingerprintError if the bytes cannot be read."""
    try:
        table = pa.ipc.open_stream(packed).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise FingerprintError(f"state cannot be read: {error}") from None
    return frames.with_object_texts(table.to_pandas())


def pack_tables(arrays: Arrays) -> dict[str, bytes]:
    """Return arrays named `table.column` as one blob for each table, so that an unchanged table gives the same bytes again."""
    tables: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        part, _, column = name.rpartition(".")
        tables.setdefault(part, {})[column] = array
    return {part: pack_arrays(columns) for part, columns in tables.items()}


def unpack_tables(parts: Mapping[str, bytes], names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of the blobs with these names, named `table.column` again."""
    return {
        f"{part}.{column}" if part else column: array
        for part in names
        for column, array in unpack_arrays(parts[part]).items()
    }


def pack_batch(name: str, batch: EventBatch, frame: pd.DataFrame | None = None) -> dict[str, bytes]:
    """Return a batch as two blobs; `frame`, such as a judged one, replaces its own."""
    columns = {field: getattr(batch, field) for field in ARRAY_FIELDS}
    columns |= {f"evidence.{detector}": kept for detector, kept in batch.evidence.items()}
    columns |= {f"unmeasured.{detector}": mask for detector, mask in batch.unmeasured.items()}
    return {
        f"{name}.arrays": pack_arrays(columns),
        f"{name}.frame": pack_table(batch.frame if frame is None else frame),
    }


def unpack_batch(name: str, parts: Mapping[str, bytes]) -> EventBatch | None:
    """Return the batch of that name, None if none was packed."""
    if f"{name}.arrays" not in parts:
        return None
    columns = unpack_arrays(parts[f"{name}.arrays"])
    evidence, unmeasured = (_pop_prefixed(columns, prefix) for prefix in ("evidence.", "unmeasured."))
    expected = set(ARRAY_FIELDS)
    if set(columns) != expected:
        raise FingerprintError(
            f"state cannot be read: {name} lacks {', '.join(sorted(expected - set(columns)))}"
        )
    frame = unpack_table(parts[f"{name}.frame"])
    return EventBatch(frame=frame, evidence=evidence, unmeasured=unmeasured, **columns)


def _pop_prefixed(columns: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Remove the columns with a prefix from `columns`, and return them with the prefix removed."""
    found = [name for name in columns if name.startswith(prefix)]
    return {name.removeprefix(prefix): columns.pop(name) for name in found}
