"""A small columnar store: sorted 64-bit keys with columns beside them; scorer state and banks are made of it.

Example:
    >>> table = SortedTable.empty(count=np.float32)
    >>> table.add(np.array([7, 3, 7]), count=np.array([1, 1, 1]))          # rows with one key are summed
    >>> table.get(np.array([7, 5]), "count", missing=0)
    array([2., 0.], dtype=float32)

Additions go to a small part of their own. It is merged into the next larger one when it has grown to a share of it, as in a
log-structured merge tree (O'Neil et al. 1996), so that adding costs the logarithm of what is there, not its length.

A table lies where it is placed, on the host or on a device. It may be asked from either: keys are moved to it, and the answer
back.
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

Keys = NDArray[Any]  # uint64 or int64, sorted where it says so
Columns = dict[str, NDArray[Any]]

GROWTH = 8  # a part is merged into the one before it when it is longer than an eighth of it ...
MIN_PART = 256  # ... or that one is shorter than this: to merge a longer one for each few rows costs more than to search it
_COMPILED_KEYS = (np.dtype(np.uint64), np.dtype(np.int64))
_WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
Part = tuple[Keys, Columns]


class SortedTable:
    """Keys (M,) sorted and distinct, columns (M,); adding a key again sums its columns, or with `keep_first` changes nothing."""

    def __init__(self, keys: Keys, columns: Columns, keep_first: bool = False) -> None:
        self.parts: list[Part] = [(keys, columns)]  # the oldest and longest first; no key is in two
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
        """The oldest part: all rows, where the table was compacted and nothing was added since."""
        return self.parts[0]

    @old.setter
    def old(self, part: Part) -> None:
        self.parts = [part]

    def add(self, keys: Keys, **columns: Any) -> None:
        """Add rows, keys in any order and repeated or not."""
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
        """Add the rows of another table, as `compact` gives them."""
        if len(self):
            self.add(keys, **columns)
        else:
            own = self.old[1].items()
            placed = {name: to_device_of(columns[name], column).astype(column.dtype) for name, column in own}
            self.old = (to_device_of(keys, self.old[0]).copy(), placed)

    def get(self, keys: Keys, column: str, missing: Any = 0) -> NDArray[Any]:
        """Return a column at `keys`, `missing` where a key is not there: (N,) -> (N,)."""
        dtype = self.old[1][column].dtype
        if not len(keys):
            return namespace(keys).empty(0, dtype)
        wanted = to_device_of(keys, self.old[0])
        out = namespace(wanted).empty(len(wanted), dtype)
        out.fill(missing)  # in a third of the time of `full`
        for part, columns in self.parts:
            _copy_found(part, columns[column], wanted, out)
        return to_device_of(out, keys)

    def has(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which keys are there: (N,) -> (N,)."""
        wanted = to_device_of(keys, self.old[0])
        return to_device_of(reduce(or_, (find_sorted(part, wanted)[1] for part, _ in self.parts)), keys)

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
        if len(found) == 1:
            return found[0]
        whiches, several, tables = zip(*found, strict=True)
        columns = {name: xp.concatenate([table[name] for table in tables]) for name in tables[0]}
        return xp.concatenate(whiches), xp.concatenate(several), columns

    def overwrite(self, keys: Keys, column: str, values: NDArray[Any]) -> None:
        """Set a column at keys that are there."""
        if not len(keys):
            return
        keys, values = (to_device_of(each, self.old[0]) for each in (keys, values))
        for part, columns in self.parts:
            place, found = find_sorted(part, keys)
            columns[column][place[found]] = values[found]

    def compact(self) -> tuple[Keys, Columns]:
        """Merge everything into one sorted part and return it: (keys, columns)."""
        while len(self.parts) > 1:
            self._merge_last()
        return self.old

    def retain(self, which: NDArray[np.bool_]) -> None:
        """Remove all rows but these (a mask over the order of `compact`)."""
        keys, columns = self.compact()
        self.old = (keys[which], {name: column[which] for name, column in columns.items()})

    def _is_short(self, place: int) -> bool:
        """Return whether a part is to be merged with the one after it."""
        return len(self.parts[place][0]) < max(MIN_PART, GROWTH * len(self.parts[place + 1][0]))

    def _merge_last(self) -> None:
        """Merge the last two parts."""
        last = self.parts.pop()
        self.parts[-1] = _merge(self.parts[-1], last)

    def items(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the columns by name, keys as `key`: what a checkpoint writes."""
        keys, columns = self.compact()
        yield "key", keys
        yield from columns.items()

    def _add_to_part(self, part: Part, fresh: Part) -> Part:
        """Add what `part` already has a key for in place; what is left is returned."""
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
    """Return places of `wanted` in sorted `keys`, and which of them are really there. Both lie in one memory."""
    if _are_on_host(keys, wanted):
        return _find_compiled(keys, wanted)
    return search_sorted(keys, wanted)


def _copy_found(keys: Keys, column: NDArray[Any], wanted: Keys, out: NDArray[Any]) -> None:
    """Copy into `out` (N,) the column (M,) at those of `wanted` (N,) that are in sorted `keys` (M,)."""
    if _are_on_host(keys, wanted):
        word = _WORDS[column.dtype.itemsize]  # bits are copied: one kernel serves all types of a size
        compiled_functions().copy_found(keys, column.view(word), wanted, out.view(word))
    else:
        place, found = search_sorted(keys, wanted)
        out[found] = column[place[found]]


def _are_on_host(keys: Keys, wanted: Keys) -> bool:
    """Return whether both are keys of one type in the host's memory, for which the search is compiled."""
    if not (isinstance(keys, np.ndarray) and isinstance(wanted, np.ndarray)):
        return False
    return keys.dtype == wanted.dtype and keys.dtype in _COMPILED_KEYS


def _find_compiled(keys: Keys, wanted: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    place, found = np.empty(len(wanted), np.intp), np.empty(len(wanted), bool)
    compiled_functions().find_places(keys, wanted, place, found)
    return place, found


def search_sorted(keys: Keys, wanted: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return what `find_sorted` does, by functions of arrays in any library."""
    xp = namespace(keys)
    place = xp.searchsorted(keys, wanted)
    if not len(keys):
        return place, xp.zeros(len(wanted), bool)
    return place, keys[xp.minimum(place, len(keys) - 1)] == wanted


def _reduce(keys: Keys, columns: Columns, keep_first: bool) -> Part:
    """Return rows (N,) as a part: sorted, those of one key summed, or the first of them."""
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
    """Return where each run of equal keys begins: (N,) -> (R,)."""
    first = namespace(ordered).empty(len(ordered), bool)
    first[:1] = True
    first[1:] = ordered[1:] != ordered[:-1]
    starts: NDArray[np.intp] = first.nonzero()[0]
    return starts


def rank_in_run(ordered: Keys) -> NDArray[np.intp]:
    """Return how many lie before each key in its run of equal ones: (N,) -> (N,). `[4, 4, 7]` -> `[0, 1, 0]`."""
    xp, starts = namespace(ordered), run_starts(ordered)
    lengths = xp.diff(xp.append(starts, len(ordered)))
    rank: NDArray[np.intp] = xp.arange(len(ordered)) - starts[arrays.segment_ids(lengths)]
    return rank


def _merge(left: Part, right: Part) -> Part:
    """Return two parts, which have no key in common, as one."""
    xp = namespace(left[0])
    keys = xp.concatenate([left[0], right[0]])
    order = xp.argsort(keys, kind="stable")
    return keys[order], {
        name: xp.concatenate([column, right[1][name]])[order] for name, column in left[1].items()
    }


def expand_ranges(
    starts: NDArray[np.intp], ends: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return all places of many ranges at once: starts, ends (R,) -> (which range, place), each (sum of lengths,)."""
    xp, lengths = namespace(starts), ends - starts
    which = arrays.segment_ids(lengths)
    before = xp.cumsum(lengths) - lengths  # places in the ranges before
    return which, (starts - before)[which] + xp.arange(len(which))
