"""A small columnar store: sorted 64-bit keys with columns, the building block of scorer state and banks.

Example:
    >>> table = SortedTable.empty(count=np.float32)
    >>> table.add(np.array([7, 3, 7]), count=np.array([1, 1, 1]))          # rows with one key are summed
    >>> table.get(np.array([7, 5]), "count", missing=0)
    array([2., 0.], dtype=float32)

New rows go to a small part of their own. When a part has grown to a share (1 / GROWTH) of the next larger one, the two are
merged, as in a log-structured merge tree (O'Neil et al. 1996). So adding a row costs the logarithm of the table's length, not the
length.

A table lies on the host or on a device. Queries may come from either: keys are moved to the table, and results back.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import arrays
from fingerprint.compute.arrays import (
    Placement,
    compiled_functions,
    identity_placement,
    namespace,
    to_device_of,
)

Keys = NDArray[Any]  # uint64 or int64
Columns = dict[str, NDArray[Any]]

GROWTH = 8  # a part is merged into the one before it if it is longer than an eighth of it ...
# ... or if that one is shorter than this. Merging a longer part for a few rows costs more than searching it.
MIN_PART = 256
_COMPILED_KEYS = (np.dtype(np.uint64), np.dtype(np.int64))
_WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
Part = tuple[Keys, Columns]


class SortedTable:
    """Sorted distinct keys (M,) with columns (M,). Adding a known key adds to its columns; with `keep_first` it does nothing."""

    def __init__(self, keys: Keys, columns: Columns, keep_first: bool = False) -> None:
        self.parts: list[Part] = [(keys, columns)]  # the oldest and longest first; a key is in one part only
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
        return sum(len(keys) for keys, _ in self.parts)

    @property
    def old(self) -> Part:
        """The oldest part, which has all rows if the table was compacted and nothing was added since."""
        return self.parts[0]

    @old.setter
    def old(self, part: Part) -> None:
        self.parts = [part]

    def add(self, keys: Keys, **columns: Any) -> None:
        """Add rows; keys may be in any order and repeated."""
        if not len(keys):
            return
        own = self.old[1]
        placed = {
            name: to_device_of(columns[name], column).astype(column.dtype) for name, column in own.items()
        }
        fresh = _reduce(to_device_of(keys, self.old[0]), placed, self.keep_first)
        for part in self.parts:
            fresh = self._add_to_part(part, fresh)
            if not len(fresh[0]):
                return
        self.parts.append(fresh)
        while len(self.parts) > 1 and self._is_short(-2):
            self._merge_last()

    def merge(self, keys: Keys, **columns: Any) -> None:
        """Add the rows of another table, in the form of `compact`."""
        if len(self):
            self.add(keys, **columns)
        else:
            own = self.old[1].items()
            placed = {name: to_device_of(columns[name], column).astype(column.dtype) for name, column in own}
            self.old = (to_device_of(keys, self.old[0]).copy(), placed)

    def get(self, keys: Keys, column: str, missing: Any = 0) -> NDArray[Any]:
        """Return the values of a column at `keys`, `missing` for unknown keys: (N,) -> (N,)."""
        dtype = self.old[1][column].dtype
        if not len(keys):
            return namespace(keys).empty(0, dtype)
        wanted = to_device_of(keys, self.old[0])
        out = namespace(wanted).empty(len(wanted), dtype)
        out.fill(missing)  # takes a third of the time of `full`
        for part, columns in self.parts:
            _copy_found(part, columns[column], wanted, out)
        return to_device_of(out, keys)

    def has(self, keys: Keys) -> NDArray[np.bool_]:
        """Return whether each key is there: (N,) -> (N,)."""
        wanted = to_device_of(keys, self.old[0])
        return to_device_of(reduce(or_, (find_sorted(part, wanted)[1] for part, _ in self.parts)), keys)

    def between(self, first: Keys, last: Keys) -> tuple[NDArray[np.intp], Keys, Columns]:
        """Return the rows of R ranges of keys, `first` to `last` (R,): index of range, key and columns, (sum of lengths,) each.

        Arguments and results lie on the device of the table. The order of rows in a range is unspecified.
        """
        xp, found = namespace(self.old[0]), []
        for keys, columns in self.parts:
            start = xp.searchsorted(keys, first)
            end = xp.maximum(xp.searchsorted(keys, last, side="right"), start)
            which, place = expand_ranges(start, end)
            found.append((which, keys[place], {name: column[place] for name, column in columns.items()}))
        if len(found) == 1:
            return found[0]
        whiches, several, tables = zip(*found, strict=True)
        columns = {name: xp.concatenate([table[name] for table in tables]) for name in tables[0]}
        return xp.concatenate(whiches), xp.concatenate(several), columns

    def overwrite(self, keys: Keys, column: str, values: NDArray[Any]) -> None:
        """Set a column at known keys; unknown keys are ignored."""
        if not len(keys):
            return
        keys, values = (to_device_of(each, self.old[0]) for each in (keys, values))
        for part, columns in self.parts:
            place, found = find_sorted(part, keys)
            columns[column][place[found]] = values[found]

    def compact(self) -> tuple[Keys, Columns]:
        """Merge all parts into one and return it: (sorted keys, columns)."""
        while len(self.parts) > 1:
            self._merge_last()
        return self.old

    def retain(self, which: NDArray[np.bool_]) -> None:
        """Keep only the rows of a mask (M,), in the order of `compact`."""
        keys, columns = self.compact()
        self.old = (keys[which], {name: column[which] for name, column in columns.items()})

    def _is_short(self, place: int) -> bool:
        """Return whether a part is so short that the one after it is merged into it."""
        return len(self.parts[place][0]) < max(MIN_PART, GROWTH * len(self.parts[place + 1][0]))

    def _merge_last(self) -> None:
        """Merge the last two parts."""
        last = self.parts.pop()
        self.parts[-1] = _merge(self.parts[-1], last)

    def items(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the keys as `key`, and the columns by name, for a checkpoint."""
        keys, columns = self.compact()
        yield "key", keys
        yield from columns.items()

    def _add_to_part(self, part: Part, fresh: Part) -> Part:
        """Add rows whose keys `part` has to it, in place, and return the other rows."""
        place, found = find_sorted(part[0], fresh[0])
        known = namespace(found).count_nonzero(found)
        if not known:
            return fresh
        if self.keep_first and known == len(found):
            return fresh[0][:0], fresh[1]
        if not self.keep_first:
            there = place[found]
            for name, column in part[1].items():
                column[there] += fresh[1][name][found]
        left = ~found
        return fresh[0][left], {name: column[left] for name, column in fresh[1].items()}


def find_sorted(keys: Keys, wanted: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the places of `wanted` in sorted `keys`, and whether each is there. Both lie on one device."""
    if _are_on_host(keys, wanted):
        return _find_compiled(keys, wanted)
    return search_sorted(keys, wanted)


def _copy_found(keys: Keys, column: NDArray[Any], wanted: Keys, out: NDArray[Any]) -> None:
    """Copy to `out` (N,) the values of `column` (M,) at those `wanted` (N,) that are in sorted `keys` (M,)."""
    if _are_on_host(keys, wanted):
        word = _WORDS[column.dtype.itemsize]  # copies bits, so that one kernel serves all types of a size
        compiled_functions().copy_found(keys, column.view(word), wanted, out.view(word))
    else:
        place, found = search_sorted(keys, wanted)
        out[found] = column[place[found]]


def _are_on_host(keys: Keys, wanted: Keys) -> bool:
    """Return whether both are keys of one type in host memory, for which the search is compiled."""
    if not (isinstance(keys, np.ndarray) and isinstance(wanted, np.ndarray)):
        return False
    return keys.dtype == wanted.dtype and keys.dtype in _COMPILED_KEYS


def _find_compiled(keys: Keys, wanted: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    place, found = np.empty(len(wanted), np.intp), np.empty(len(wanted), bool)
    compiled_functions().find_places(keys, wanted, place, found)
    return place, found


def search_sorted(keys: Keys, wanted: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the result of `find_sorted`, computed with any array library."""
    xp = namespace(keys)
    place = xp.searchsorted(keys, wanted)
    if not len(keys):
        return place, xp.zeros(len(wanted), bool)
    return place, keys[xp.minimum(place, len(keys) - 1)] == wanted


def _reduce(keys: Keys, columns: Columns, keep_first: bool) -> Part:
    """Return rows (N,) as a part: sorted by key, with rows of equal keys summed, or the first of them kept."""
    if len(keys) == 1:
        return keys, columns
    order = arrays.stable_argsort(keys)
    ordered = keys[order]
    starts = run_starts(ordered)
    if len(starts) == len(order):
        return ordered, {name: column[order] for name, column in columns.items()}
    if keep_first:
        first = order[starts]
        return ordered[starts], {name: column[first] for name, column in columns.items()}
    return ordered[starts], {
        name: arrays.segment_sums(column[order], starts) for name, column in columns.items()
    }


def run_starts(ordered: Keys) -> NDArray[np.intp]:
    """Return the index at which each run of equal keys begins: (N,) -> (R,)."""
    first = namespace(ordered).empty(len(ordered), bool)
    first[:1] = True
    first[1:] = ordered[1:] != ordered[:-1]
    starts: NDArray[np.intp] = first.nonzero()[0]
    return starts


def rank_in_run(ordered: Keys) -> NDArray[np.intp]:
    """Return the rank of each key in its run of equal keys: (N,) -> (N,). `[4, 4, 7]` -> `[0, 1, 0]`."""
    xp, starts = namespace(ordered), run_starts(ordered)
    lengths = xp.diff(xp.append(starts, len(ordered)))
    rank: NDArray[np.intp] = xp.arange(len(ordered)) - starts[arrays.segment_ids(lengths)]
    return rank


def _merge(left: Part, right: Part) -> Part:
    """Return two parts without common keys as one."""
    xp = namespace(left[0])
    keys = xp.concatenate([left[0], right[0]])
    order = xp.argsort(keys, kind="stable")
    return keys[order], {
        name: xp.concatenate([column, right[1][name]])[order] for name, column in left[1].items()
    }


def expand_ranges(
    starts: NDArray[np.intp], ends: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return all places of many ranges at once: starts, ends (R,) -> (index of the range, place), each (sum of lengths,)."""
    xp, lengths = namespace(starts), ends - starts
    which = arrays.segment_ids(lengths)
    before = xp.cumsum(lengths) - lengths  # places in the ranges before
    return which, (starts - before)[which] + xp.arange(len(which))
