"""The columns of a batch, each told apart once: what is named is named once per distinct value, not once an event.

Example:
    >>> coded = Coded(events)
    >>> code, distinct = coded.together(("service", "action"))       # (N,) and the D pairs that there are
    >>> distinct[0]
    ('s3', 'GetObject')

A column is factorised when it is first asked for, however many features read it; columns together are told apart by their codes.
So a batch costs a few passes over integers, and Python what is distinct in it. Codes lie where the events do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fingerprint.compute import arrays, frames
from fingerprint.compute.arrays import Array
from fingerprint.compute.frames import Frame

CodeArray = Array  # (N,) int64
DistinctValues = list[Any]  # distinct values; a missing one is None
EncodedColumn = tuple[CodeArray, DistinctValues]


class DictionaryEncoded:
    """N events. `derived` makes the columns that the frame does not have, from those that it has."""

    def __init__(
        self, events: Frame, derived: Mapping[str, Callable[[DictionaryEncoded], EncodedColumn]] | None = None
    ) -> None:
        self.events, self.derived = events, derived or {}
        self._columns: dict[str, EncodedColumn] = {}

    def __len__(self) -> int:
        return len(self.events)

    def column(self, name: str) -> EncodedColumn:
        """The code of each event's value (N,) and the values; one that is nowhere in the frame is missing everywhere."""
        if name not in self._columns:
            self._columns[name] = self._encode(name)
        return self._columns[name]

    def combined_column(self, names: Sequence[str]) -> tuple[CodeArray, list[tuple[Any, ...]]]:
        """The code of each event's values in several columns (N,), and the tuples of values."""
        columns = [self.column(name) for name in names]
        if len(columns) == 1:
            code, values = columns[0]
            return code, [(value,) for value in values]
        xp = frames.array_module_of(self.events)
        mixed = xp.zeros(len(self), np.int64)
        for code, values in columns:
            mixed = mixed * len(values) + code
        _, first, code = xp.unique(mixed, return_index=True, return_inverse=True)
        parts = [[values[at] for at in codes[first].tolist()] for codes, values in columns]
        return code, list(zip(*parts, strict=True))

    def _encode(self, name: str) -> EncodedColumn:
        if name in self.derived:
            return self.derived[name](self)
        xp = frames.array_module_of(self.events)
        if name not in self.events:
            return xp.zeros(len(self), np.int64), [None]
        column = self.events[name]
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
            return encode_numbers(column.values.astype(np.int64, copy=False))
        code, distinct = frames.factorize_values(column)
        return xp.where(code < 0, len(distinct), code), [*distinct, None]


def encode_numbers(values: Array) -> EncodedColumn:
    """Whole numbers told apart: (N,) -> codes (N,), values."""
    distinct, code = arrays.namespace(values).unique(values, return_inverse=True)
    return code, distinct.tolist()


def map_values(column: EncodedColumn, convert: Callable[[Any], Any]) -> EncodedColumn:
    """A column of fewer values: what `name` makes of each."""
    code, values = column
    places: dict[Any, int] = {}
    place = [places.setdefault(convert(value), len(places)) for value in values]
    return arrays.to_device_of(np.array(place, np.int64), code)[code], list(places)
