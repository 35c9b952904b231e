"""Records to events: one row a record, fixed columns, whatever types a record's fields have.

Example:
    >>> from fingerprint.sources.cloudtrail.envelopes import split
    >>> record = b'{"eventTime": "2023-07-10T11:42:18Z", "eventSource": "ec2.amazonaws.com"}'
    >>> flatten(split(record)).events[["event_time", "service", "action"]].values.tolist()
    [[Timestamp('2023-07-10 11:42:18+0000', tz='UTC'), 'ec2', 'unknown']]

`columns` has the one table that says which column comes from which path as which type. `reading_duckdb` reads it on a host,
`reading_cudf` on a device; both give the same events and the same rejects (docs/explanation/reading.md).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import arrays, frames
from fingerprint.compute.arrays import Array
from fingerprint.compute.frames import Frame, FrameColumn
from fingerprint.compute.kernels import launch_kernel
from fingerprint.sources import cudf_reader, duckdb_reader
from fingerprint.sources.cloudtrail.envelopes import RecordBatch
from fingerprint.sources.cloudtrail.schema import COLUMNS, FlattenedRecords

__all__ = ["COLUMNS", "FlattenedRecords", "dedup_key", "flatten"]

_ODD = 0x9E3779B97F4A7C15  # keeps account and event from cancelling out where they are the same text


def flatten(records: RecordBatch, tables: str = "pandas") -> FlattenedRecords:
    """One row per readable record, in their order: the columns of COLUMNS, then `row`, the index into `records.lines`.

    Text is `str` with NA for missing, flags are nullable booleans, times `datetime64[us, UTC]` (on a device without the zone).
    A record is an event if its eventTime can be used; no other field can cost it. Columns that others group by are cut at
    KEY_LENGTH characters; a missing event id becomes `digest:` and a hash of the record's bytes. Repeats are kept (see
    `repeat_key`). `tables` names the library of the frame: pandas, or cudf, whose frame lies on the device.
    """
    return (
        duckdb_reader.read_on_host(records)
        if tables == "pandas"
        else cudf_reader.read_on_device(records, tables)
    )


def dedup_key(events: Frame) -> Array:
    """A 64-bit hash of (recipient_account, event_id) per event, shape (n,), uint64, where the events lie: equal for a repeat,
    stable over runs, the same from every library."""
    codes, distinct = frames.factorize_values(
        events["recipient_account"]
    )  # there are few; a missing one is the last
    account = arrays.to_device_of(_hashed(np.array([*distinct, ""], object)), codes)[codes]
    return _hash_each(events["event_id"]) ^ (account * np.uint64(_ODD))


def _hash_each(texts: FrameColumn) -> Array:
    """The hash of each text (n,): ids, of which hardly two are the same."""
    if frames.is_host_frame(texts):
        return _hashed(texts.to_numpy(object))
    characters, borders = frames.utf8_buffers(texts)
    out = frames.array_module_of(texts).empty(len(texts), np.uint64)
    launch_kernel("siphash", len(texts), characters, borders, out)
    return out


def _hashed(texts: NDArray[np.object_]) -> NDArray[np.uint64]:
    return pd.util.hash_array(texts, categorize=False)
