"""A small columnar store: sorted 64-bit keys with columns beside them; what the ledger and the bank are made of.

Example:
    >>> table = SortedTable.empty(count=np.float32)
    >>> table.add(np.array([7, 3, 7]), count=np.array([1, 1, 1]))          # rows with one key are summed
    >>> table.get(np.array([7, 5]), "count", missing=0)
    array([2., 0.], dtype=float32)

Additions go to a small young part that is merged into the old one when it has grown, so that adding costs the logarithm
of what is there, not its length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[Any]  # uint64 or int64, sorted where it says so
Columns = dict[str, NDArray[Any]]

YOUNG_SHARE = 8  # the young part is merged when it is longer than an eighth of the old
YOUNG_LEAST = 4096


class SortedTable:
    """Keys (M,) sorted and distinct, columns (M,); the same key added again has its columns summed (`first`: kept)."""

    def __init__(self, keys: Keys, columns: Columns, keep_first: bool = False) -> None:
        self.old = (keys, columns)
        self.young = (keys[:0], {name: column[:0] for name, column in columns.items()})
        self.keep_first = keep_first

    @classmethod
    def empty(cls, keep_first: bool = False, key: Any = np.uint64, **dtypes: Any) -> SortedTable:
        return cls(np.empty(0, key), {name: np.empty(0, dtype) for name, dtype in dtypes.items()}, keep_first)

    def __len__(self) -> int:
        return len(self.old[0]) + len(self.young[0])

    def add(self, keys: Keys, **columns: Any) -> None:
        """Add rows, keys in any order and repeated or not."""
        if not len(keys):
            return
        dtypes = {name: column.dtype for name, column in self.old[1].items()}
        fresh = _reduce(
            keys, {name: np.asarray(columns[name]).astype(dtypes[name]) for name in dtypes}, self.keep_first
        )
        fresh = self._into(self.old, fresh)
        self.young = _merge(self.young, fresh, self.keep_first)
        if len(self.young[0]) > max(YOUNG_LEAST, len(self.old[0]) // YOUNG_SHARE):
            self.settle()

    def merge(self, keys: Keys, **columns: Any) -> None:
        """Add the rows of another table, as `settle` gives them."""
        if len(self):
            self.add(keys, **columns)
        else:
            mine = {name: np.array(columns[name], column.dtype) for name, column in self.old[1].items()}
            self.old = (np.array(keys), mine)

    def get(self, keys: Keys, column: str, missing: Any = 0) -> NDArray[Any]:
        """A column at `keys`, `missing` where a key is not there: (N,) -> (N,)."""
        out = np.full(len(keys), missing, dtype=self.old[1][column].dtype)
        for part, columns in (self.old, self.young):
            place, found = find(part, keys)
            out[found] = columns[column][place[found]]
        return out

    def has(self, keys: Keys) -> NDArray[np.bool_]:
        """Which keys are there: (N,) -> (N,)."""
        return find(self.old[0], keys)[1] | find(self.young[0], keys)[1]

    def put(self, keys: Keys, column: str, values: NDArray[Any]) -> None:
        """Overwrite a column at keys that are there."""
        for part, columns in (self.old, self.young):
            place, found = find(part, keys)
            columns[column][place[found]] = values[found]

    def settle(self) -> tuple[Keys, Columns]:
        """Everything as one sorted part: (keys, columns)."""
        if len(self.young[0]):
            self.old = _merge(self.old, self.young, self.keep_first)
            self.young = (self.old[0][:0], {name: column[:0] for name, column in self.old[1].items()})
        return self.old

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Forget all rows but these (a mask over `settle()`'s order)."""
        keys, columns = self.settle()
        self.old = (keys[which], {name: column[which] for name, column in columns.items()})

    def items(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """The columns by name, keys as `key`: what a snapshot writes."""
        keys, columns = self.settle()
        yield "key", keys
        yield from columns.items()

    def _into(self, part: tuple[Keys, Columns], fresh: tuple[Keys, Columns]) -> tuple[Keys, Columns]:
        """Add what `part` already has a key for in place; what is left is returned."""
        place, found = find(part[0], fresh[0])
        if not self.keep_first:
            for name, column in part[1].items():
                column[place[found]] += fresh[1][name][found]
        return fresh[0][~found], {name: column[~found] for name, column in fresh[1].items()}


def find(keys: Keys, wanted: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Places of `wanted` in sorted `keys`, and which of them are really there."""
    place = np.searchsorted(keys, wanted)
    found = place < len(keys)
    found[found] = keys[place[found]] == wanted[found]
    return place, found


def _reduce(keys: Keys, columns: Columns, keep_first: bool) -> tuple[Keys, Columns]:
    if not len(keys):
        return keys, columns
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    if keep_first:
        return ordered[starts], {name: column[order][starts] for name, column in columns.items()}
    return ordered[starts], {
        name: np.add.reduceat(column[order], starts, dtype=column.dtype) for name, column in columns.items()
    }


def _merge(left: tuple[Keys, Columns], right: tuple[Keys, Columns], keep_first: bool) -> tuple[Keys, Columns]:
    return _reduce(
        np.concatenate([left[0], right[0]]),
        {name: np.concatenate([column, right[1][name]]) for name, column in left[1].items()},
        keep_first,
    )


def ranges(starts: NDArray[np.intp], ends: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """All places of many ranges at once: starts, ends (R,) -> (which range, place), each (sum of lengths,)."""
    lengths = ends - starts
    which = np.repeat(np.arange(len(starts)), lengths)
    offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return which, starts[which] + offsets
