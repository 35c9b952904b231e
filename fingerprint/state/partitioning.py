"""Split a scorer's state by hash bucket: for another worker, or to be evicted.

Example:
    >>> buckets = hashing.buckets_of_partitions(np.arange(256) % 4 == 1)      # the principals of Kafka partition 1 of 4
    >>> part = select_buckets(state.as_arrays(), buckets)                     # for the owner of partition 1
    >>> rest = ScorerState.from_arrays(settings, select_buckets(state.as_arrays(), ~buckets))
    >>> rest.merge(part)                                                   # now scores like a state that was never split

Every key of the state's tables has its hash bucket in its top 16 bits (`hashing`). Slots of principals and rows of series are
renumbered in order, so sorted tables stay sorted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Arrays, Mask

_SLOT_SHIFT = np.int64(32)  # a cell is a slot or row, shifted by this, and an interval
TABLE_NAMES = (  # of the scorer state, in the order of its arrays
    "principals",
    "activity",
    "unknown_principals",
    "alert_runs",
    "firsts",
    "novelties",
    "first_calls.calls",
    "interval_surprise.values",
    "interval_surprise.sums",
    "interval_surprise.usual_place",
    "sequence.actions",
    "sequence.votes",
    "interval_amounts.counts",
)
# Tables that training fills and a bank keeps; the others begin empty with a new bank.
LEARNED_TABLES = ("principals", "activity", "firsts", "sequence.actions")
# Tables whose keys have buckets.
_BUCKETED_TABLES = ("repeats", *(each for each in TABLE_NAMES if each != "activity"))
_CELL_TABLES = ("past", "open")


def select_buckets(arrays: Arrays, buckets: Mask) -> dict[str, NDArray[Any]]:
    """Return the part of `ScorerState.as_arrays()` in some buckets, a mask (65536,); its clock is that of the whole."""
    out = {"clock": arrays["clock"].copy()}
    for table in _BUCKETED_TABLES:
        if f"{table}.key" in arrays:
            out |= _select_rows(arrays, table, buckets[hashing.bucket_of(arrays[f"{table}.key"])])
    if "activity.key" in arrays:
        out |= _select_activity(arrays, out["principals.slot"])
        out["principals.slot"] = _renumber(out["principals.slot"])
    if "series.owner" in arrays:
        out |= _select_series(arrays, buckets[hashing.bucket_of(arrays["series.owner"])])
    return out


def _select_rows(arrays: Arrays, table: str, rows: Mask) -> dict[str, NDArray[Any]]:
    start = f"{table}."
    return {
        name: array[rows]
        for name, array in arrays.items()
        if name.startswith(start) and "." not in name[len(start) :]
    }


def _select_activity(arrays: Arrays, slots: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
    """Return the activity of the principals with these slots (P,)."""
    number = np.full(len(arrays["principals.slot"]), -1, np.int64)
    number[slots] = _renumber(slots)
    return _select_cells(arrays, "activity", number)


def _select_series(arrays: Arrays, kept: Mask) -> dict[str, NDArray[Any]]:
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    out = {f"series.{name}": arrays[f"series.{name}"][kept] for name in ("owner", "channel", "since")}
    for name in _CELL_TABLES:
        out |= _select_cells(arrays, f"series.{name}", number)
    days = _select_rows(arrays, "series.days", kept[arrays["series.days.row"]])
    return out | days | {"series.days.row": number[days["series.days.row"]].astype(np.int32)}


def _select_cells(arrays: Arrays, table: str, number: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the cells of some slots or rows; `number` has the new number of each slot or row, -1 if it is left out."""
    key = arrays[f"{table}.key"]
    renumbered = number[key >> _SLOT_SHIFT]
    out = _select_rows(arrays, table, renumbered >= 0)
    interval = out[f"{table}.key"] & np.int64(0xFFFFFFFF)
    return out | {f"{table}.key": renumbered[renumbered >= 0] << _SLOT_SHIFT | interval}


def _renumber(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the ranks 0 ... n - 1 of distinct numbers: (n,) -> (n,)."""
    out = np.empty(len(numbers), np.int32)
    out[np.argsort(numbers)] = np.arange(len(numbers), dtype=np.int32)
    return out
