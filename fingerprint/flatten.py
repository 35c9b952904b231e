"""Records to events: one row a record, fixed columns, whatever types a record's fields have.

Example:
    >>> from fingerprint.cloudtrail import split
    >>> record = b'{"eventTime": "2023-07-10T11:42:18Z", "eventSource": "ec2.amazonaws.com"}'
    >>> flatten(split(record)).events[["event_time", "service", "action"]].values.tolist()
    [[Timestamp('2023-07-10 11:42:18+0000', tz='UTC'), 'ec2', 'unknown']]

`columns` has the one table that says which column comes from which path as which type. `reading_duckdb` reads it on a host,
`reading_cudf` on a device; both give the same events and the same rejects (docs/reading.md).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fingerprint import arrays, frames, reading_cudf, reading_duckdb
from fingerprint.arrays import Array
from fingerprint.cloudtrail import Records
from fingerprint.columns import COLUMNS, Flat
from fingerprint.frames import Frame
from fingerprint.kernels import launch

__all__ = ["COLUMNS", "Flat", "flatten", "repeat_key"]

_ODD = 0x9E3779B97F4A7C15  # keeps account and event from cancelling out where they are the same text


def flatten(records: Records, tables: str = "pandas") -> Flat:
    """One row per readable record, in their order: the columns of COLUMNS, then `row`, the index into `records.lines`.

    Text is `str` with NA for missing, flags are nullable booleans, times `datetime64[us, UTC]` (on a device without the zone).
    A record is an event if its eventTime can be used; no other field can cost it. Columns that others group by are cut at
    KEY_LENGTH characters; a missing event id becomes `digest:` and a hash of the record's bytes. Repeats are kept (see
    `repeat_key`). `tables` names the library of the frame: pandas, or cudf, whose frame lies on the device.
    """
    return reading_duckdb.read(records) if tables == "pandas" else reading_cudf.read(records, tables)


def repeat_key(events: Frame) -> Array:
    """A 64-bit hash of (recipient_account, event_id) per event, shape (n,), uint64: equal for a repeat,
    stable over runs. It lies where the events do."""
    if not frames.at_home(events):
        return _key_there(events)
    account = pd.util.hash_array(events["recipient_account"].fillna("").to_numpy(object), categorize=True)
    event = pd.util.hash_array(events["event_id"].to_numpy(object), categorize=False)
    return event ^ (account * np.uint64(_ODD))


def _key_there(events: Frame) -> Array:
    """The accounts, of which there are few, are hashed here; the ids, which are as many as the events, there."""
    codes, distinct = frames.factorize(events["recipient_account"])
    known = pd.util.hash_array(np.array([*distinct, ""], object), categorize=False)
    text, borders = frames.characters(events["event_id"])
    event = frames.namespace(events).empty(len(events), np.uint64)
    launch("siphash", len(events), text, borders, event)
    return event ^ (arrays.like(known, codes)[codes] * np.uint64(_ODD))
