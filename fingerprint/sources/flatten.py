"""Flattening: records to events, one row for each record, with fixed columns, whatever types its fields have.

Example:
    >>> from fingerprint.sources.active import SOURCE
    >>> record = b'{"eventTime": "2023-07-10T11:42:18Z", "eventSource": "ec2.amazonaws.com"}'
    >>> flatten(SOURCE.split_lines([record])).events[["event_time", "service", "action"]].values.tolist()
    [[Timestamp('2023-07-10 11:42:18+0000', tz='UTC'), 'ec2', 'unknown']]
"""

from __future__ import annotations

import numpy as np

from fingerprint.compute import arrays, frames, hashing
from fingerprint.compute.arrays import Array
from fingerprint.compute.frames import Frame, FrameColumn
from fingerprint.compute.kernels import SIPHASH, launch_kernel
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import FlattenedRecords, RecordBatch
from fingerprint.sources.protocol import RecordReader

_ODD = 0x9E3779B97F4A7C15  # keeps account and event id from cancelling out if they are the same text
_NO_ACCOUNT = hashing.hash_string("")  # stands for a missing account


def flatten(
    records: RecordBatch, dataframe_library: str = "pandas", source: RecordReader = SOURCE
) -> FlattenedRecords:
    """Return one row for each readable record, in order; `row` is its index in `records.lines`.

    Text is `str` with NA for missing, flags are nullable booleans, times `datetime64[us, UTC]` (without the zone on a device). A
    record is an event if its time can be read, whatever its other fields are. Repeats are kept (see `dedup_key`).
    `dataframe_library` is pandas, or cudf, whose frame is on the device.
    """
    return source.flatten(records, dataframe_library)


def dedup_key(events: Frame) -> Array:
    """Return a 64-bit hash of (recipient_account, event_id) for each event, (N,) uint64, on the device of the events.

    Repeats have the same hash. It is stable over runs, and the same in every dataframe library.
    """
    account = hashing.hash_strings(frames.texts_of(events, "recipient_account"))
    account = arrays.namespace(account).where(account == hashing.MISSING, _NO_ACCOUNT, account)
    return _hash_each(frames.column_of(events, "event_id")) ^ (account * np.uint64(_ODD))


def _hash_each(texts: FrameColumn) -> Array:
    """Return the hash of each text (N,), without a dictionary: hardly two ids are the same."""
    if frames.is_host_frame(texts):
        return hashing.hash_texts(np.asarray(texts, object))
    characters, borders = frames.utf8_buffers(texts)
    out = frames.array_module_of(texts).empty(len(texts), np.uint64)
    launch_kernel(SIPHASH, len(texts), characters, borders, out)
    return out
