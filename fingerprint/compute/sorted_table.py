"""A small columnar store: sorted 64-bit keys with columns beside them; scorer state and banks are made of it.

Example:
    >>> table = SortedTable.empty(count=np.float32)
    >>> table.add(np.array([7, 3, 7]), count=np.array([1, 1, 1]))          # rows with one key are summed
    >>> table.get(np.array([7, 5]), "count", missing=0)
    array([2., 0.], dtype=float32)

Additions go to a small young part that is merged into the old one when it has grown, so that adding costs the logarithm of what
is there, not its length. A table lies where it is placed, on the host or on a device. It may be asked from either: keys are
moved to it, and the answer back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import arrays
from fingerprint.compute.arrays import Placement, identity_placement, namespace, to_device_of

Keys = NDArray[Any]  # uint64 or int64, sorted where it says so
Columns = dict[str, NDArray[Any]]

YOUNG_SHARE = 8  # the young part is merged when it is longer than an eighth of the old
YOUNG_MINIMUM = 4096


class SortedTable:
    """Keys (M,) sorted and distinct, columns (M,); adding a key again sums its columns, or with `keep_first` changes nothing."""

    def __init__(self, keys: Keys, columns: Columns, keep_first: bool = False) -> None:
        self.old = (keys, columns)
        self.young = (keys[:0], {name: column[:0] for name, column in columns.items()})
        self.keep_first = keep_first

    @classmethod
    def empty(
        cls,
        keep_first: bool = False,
        key: Any = np.uint64,
        place: Placement = identity_placement,
        **dtypes: Any,
    ) -> SortedTable:
        """Return a table without rows, with a column for each dtype."""
        columns = {name: place(np.empty(0, dtype)) for name, dtype in dtypes.items()}
        return cls(place(np.empty(0, key)), columns, keep_first)

    def __len__(self) -> int:
        return len(self.old[0]) + len(self.young[0])

    def add(self, keys: Keys, **columns: Any) -> None:
        """Add rows, keys in any order and repeated or not."""
        if not len(keys):
            return
        own = self.old[1]
        placed = {
            name: to_device_of(columns[name], column).astype(column.dtype) for name, column in own.items()
        }
        fresh = self._add_to_part(self.old, _reduce(to_device_of(keys, self.old[0]), placed, self.keep_first))
        self.young = _merge(self.young, fresh, self.keep_first)
        if len(self.young[0]) > max(YOUNG_MINIMUM, len(self.old[0]) // YOUNG_SHARE):
            self.compact()

    def merge(self, keys: Keys, **columns: Any) -> None:
        """Add the rows of another table, as `settle` gives them."""
        if len(self):
            self.add(keys, **columns)
        else:
            own = self.old[1].items()
            mine = {name: to_device_of(columns[name], column).astype(column.dtype) for name, column in own}
            self.old = (to_device_of(keys, self.old[0]).copy(), mine)

    def get(self, keys: Keys, column: str, missing: Any = 0) -> NDArray[Any]:
        """Return a column at `keys`, `missing` where a key is not there: (N,) -> (N,)."""
        wanted, dtype = to_device_of(keys, self.old[0]), self.old[1][column].dtype
        out = namespace(wanted).full(len(wanted), missing, dtype=dtype)
        for part, columns in (self.old, self.young):
            place, found = find_sorted(part, wanted)
            out[found] = columns[column][place[found]]
        return to_device_of(out, keys)

    def has(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which keys are there: (N,) -> (N,)."""
        wanted = to_device_of(keys, self.old[0])
        return to_device_of(find_sorted(self.old[0], wanted)[1] | find_sorted(self.young[0], wanted)[1], keys)

    @property
    def parts(self) -> tuple[tuple[Keys, Columns], tuple[Keys, Columns]]:
        """The old and the young part, sorted each: what reads few rows need not wait for them to be merged."""
        return self.old, self.young

    def between(self, first: Keys, last: Keys) -> tuple[NDArray[np.intp], Keys, Columns]:
        """Return the rows of R ranges of keys, from `first` to `last` (R,): which range, key and columns, (sum of lengths,) each.

        All lies where the table does. Rows of a range are in no order that means anything.
        """
        xp, found = namespace(self.old[0]), []
        for keys, columns in self.parts:
            start = xp.searchsorted(keys, first)
            end = xp.maximum(xp.searchsorted(keys, last, side="right"), start)
            which, place = expand_ranges(start, end)
            found.append((which, keys[place], {name: column[place] for name, column in columns.items()}))
        (which, keys, columns), (more, others, of_others) = found
        if not len(more):
            return which, keys, columns
        together = {name: xp.concatenate([column, of_others[name]]) for name, column in columns.items()}
        return xp.concatenate([which, more]), xp.concatenate([keys, others]), together

    def overwrite(self, keys: Keys, column: str, values: NDArray[Any]) -> None:
        """Set a column at keys that are there."""
        keys, values = (to_device_of(each, self.old[0]) for each in (keys, values))
        for part, columns in (self.old, self.young):
            place, found = find_sorted(part, keys)
            columns[column][place[found]] = values[found]

    def compact(self) -> tuple[Keys, Columns]:
        """Merge everything into one sorted part and return it: (keys, columns)."""
        if len(self.young[0]):
            self.old = _merge(self.old, self.young, self.keep_first)
            self.young = (self.old[0][:0], {name: column[:0] for name, column in self.old[1].items()})
        return self.old

    def retain(self, which: NDArray[np.bool_]) -> None:
        """Remove all rows but these (a mask over the order of `compact`)."""
        keys, columns = self.compact()
        self.old = (keys[which], {name: column[which] for name, column in columns.items()})

    def items(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the columns by name, keys as `key`: what a checkpoint writes."""
        keys, columns = self.compact()
        yield "key", keys
        yield from columns.items()

    def _add_to_part(self, part: tuple[Keys, Columns], fresh: tuple[Keys, Columns]) -> tuple[Keys, Columns]:
        """Add what `part` already has a key for in place; what is left is returned."""
        place, found = find_sorted(part[0], fresh[0])
        if not self.keep_first:
            for name, column in part[1].items():
                column[place[found]] += fresh[1][name][found]
        return fresh[0][~found], {name: column[~found] for name, column in fresh[1].items()}


def find_sorted(keys: Keys, wanted: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return places of `wanted` in sorted `keys`, and which of them are really there. Both lie in one memory."""
    xp = namespace(keys)
    place = xp.searchsorted(keys, wanted)
    if not len(keys):
        return place, xp.zeros(len(wanted), bool)
    return place, keys[xp.minimum(place, len(keys) - 1)] == wanted


def _reduce(keys: Keys, columns: Columns, keep_first: bool) -> tuple[Keys, Columns]:
    if not len(keys):
        return keys, columns
    order = namespace(keys).argsort(keys, kind="stable")
    ordered = keys[order]
    starts = run_starts(ordered)
    if keep_first:
        return ordered[starts], {name: column[order][starts] for name, column in columns.items()}
    return ordered[starts], {
        name: arrays.segment_sums(column[order], starts) for name, column in columns.items()
    }


def run_starts(ordered: Keys) -> NDArray[np.intp]:
    """Return where each run of equal keys begins: (N,) -> (R,)."""
    xp = namespace(ordered)
    first = xp.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    starts: NDArray[np.intp] = xp.flatnonzero(first)
    return starts


def _merge(left: tuple[Keys, Columns], right: tuple[Keys, Columns], keep_first: bool) -> tuple[Keys, Columns]:
    xp = namespace(left[0])
    return _reduce(
        xp.concatenate([left[0], right[0]]),
        {name: xp.concatenate([column, right[1][name]]) for name, column in left[1].items()},
        keep_first,
    )


def expand_ranges(
    starts: NDArray[np.intp], ends: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return all places of many ranges at once: starts, ends (R,) -> (which range, place), each (sum of lengths,)."""
    xp, lengths = namespace(starts), ends - starts
    which = arrays.segment_ids(lengths)
    before = xp.cumsum(lengths) - lengths  # places in the ranges before
    return which, (starts - before)[which] + xp.arange(len(which))
