"""A ledger's state cut by home: what belongs to some principals, as a ledger of its own.

Example:
    >>> part = pick(ledger.as_arrays(), homes)             # homes: a mask (65536,)
    >>> other.merge(part)                                  # and into another ledger
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint import hashing

Arrays = dict[str, NDArray[Any]]
Mask = NDArray[np.bool_]

HASHED = ("repeats", "firsts", "seen", "company.values", "company.sums")  # tables with homes in their keys


def pick(arrays: Mapping[str, NDArray[Any]], homes: Mask) -> Arrays:
    """The part of `Ledger.as_arrays()` whose homes are wanted; slots and rows are numbered anew, the clock is copied."""
    out: Arrays = {"clock": arrays["clock"]}
    for table in HASHED:
        if f"{table}.key" in arrays:
            out |= _rows(arrays, table, _at(arrays[f"{table}.key"], homes))
    if "principals.key" in arrays:
        out |= _principals(arrays, homes)
    if "series.owner" in arrays:
        out |= _series(arrays, homes)
    return out


def _principals(arrays: Mapping[str, NDArray[Any]], homes: Mask) -> Arrays:
    out = _rows(arrays, "principals", _at(arrays["principals.key"], homes))
    number = _numbers(arrays["principals.slot"], out["principals.slot"])
    return out | {"principals.slot": number[out["principals.slot"]]} | _cells(arrays, "activity", number)


def _series(arrays: Mapping[str, NDArray[Any]], homes: Mask) -> Arrays:
    wanted = _at(arrays["series.owner"], homes)
    number = np.where(wanted, np.cumsum(wanted) - 1, -1).astype(np.int32)
    out: Arrays = {f"series.{name}": arrays[f"series.{name}"][wanted] for name in ("owner", "channel", "since")}
    for table in ("series.past", "series.open"):
        out |= _cells(arrays, table, number)
    days = number[arrays["series.days.row"]]
    out |= _rows(arrays, "series.days", days >= 0)
    return out | {"series.days.row": days[days >= 0]}


def _cells(arrays: Mapping[str, NDArray[Any]], table: str, number: NDArray[np.int32]) -> Arrays:
    """A table whose keys are row << 32 | interval, its rows numbered anew (-1: not wanted), in order again."""
    keys = arrays[f"{table}.key"]
    row = number[keys >> 32]
    which = np.flatnonzero(row >= 0)
    fresh = row[which].astype(np.int64) << 32 | keys[which] & 0xFFFFFFFF
    order = np.argsort(fresh, kind="stable")
    out = _rows(arrays, table, which[order])
    return out | {f"{table}.key": fresh[order]}


def _numbers(before: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int32]:
    """Of old numbers the new ones, -1 for those that are not wanted."""
    number = np.full(int(before.max(initial=-1)) + 1, -1, np.int32)
    number[wanted] = np.arange(len(wanted))
    return number


def _at(keys: hashing.Hashes, homes: Mask) -> Mask:
    return homes[hashing.homes(keys)]


def _rows(arrays: Mapping[str, NDArray[Any]], table: str, which: NDArray[Any]) -> Arrays:
    """The columns of one table at a mask or an index."""
    return {
        name: array[which]
        for name, array in arrays.items()
        if name.startswith(f"{table}.") and "." not in name[len(table) + 1 :]
    }
