"""Dictionary encoding of the columns of a batch, so that Python works on distinct values, never on every event.

Example:
    >>> coded = DictionaryEncoded(events)
    >>> code, distinct = coded.combined_column(("service", "action"))       # (N,) and the D pairs that occur
    >>> distinct[0]
    ('s3', 'GetObject')

A column is factorised once, when the first feature reads it; combinations of columns are found from their codes. So a batch costs
a few passes over integers, and Python calls for distinct values alone. Codes lie on the device of the events.

A few events on the host are encoded value by value in a Python dictionary instead, because calling array functions takes longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fingerprint.compute import arrays, frames
from fingerprint.compute.arrays import Array
from fingerprint.compute.frames import Frame

CodeArray = Array  # (N,) int64
DistinctValues = list[Any]  # a missing value is None
EncodedColumn = tuple[CodeArray, DistinctValues]

FLAGS = (False, True, None)
FEW_EVENTS = 300  # above this, array functions are faster


class MappedColumn(NamedTuple):
    """A column whose values are converted from those of another one."""

    column: str
    convert: Callable[[Any], Any]


# A column that events do not have: a function that returns integers (N,) on the device of the events, or a converted column.
DerivedColumn = Callable[[Frame], Array] | MappedColumn


class DictionaryEncoded:
    """N events with encoded columns. `derived` are columns that the frame does not have, made from those that it has."""

    def __init__(self, events: Frame, derived: Mapping[str, DerivedColumn] | None = None) -> None:
        self.events, self.derived = events, derived or {}
        self.is_few = len(events) <= FEW_EVENTS and frames.is_host_frame(events)
        self._columns: dict[str, EncodedColumn] = {}
        self._plain: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self.events)

    def column(self, name: str) -> EncodedColumn:
        """Return the code of each event's value (N,), and the values; if the frame lacks the column, all values are missing."""
        if name not in self._columns:
            self._columns[name] = self._encode(name)
        return self._columns[name]

    def combined_column(self, names: Sequence[str]) -> tuple[CodeArray, list[tuple[Any, ...]]]:
        """Return the code of each event's combination of values in several columns (N,), and the combinations as tuples."""
        if self.is_few:
            return encode_few(self.rows(names))
        columns = [self.column(name) for name in names]
        if len(columns) == 1:
            code, values = columns[0]
            return code, [(value,) for value in values]
        mixed = columns[0][0]
        for code, values in columns[1:]:
            mixed = mixed * len(values) + code
        code, example = arrays.unique_examples(mixed, math.prod(len(values) for _, values in columns))
        parts = [[values[at] for at in codes[example].tolist()] for codes, values in columns]
        return code, list(zip(*parts, strict=True))

    def rows(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the values of each event in several columns, N tuples; a missing value is None."""
        plain = self._plain
        for name in names:
            if name not in plain:
                plain[name] = self._read_values(name)
        return [*zip(*[plain[name] for name in names], strict=True)]

    def _read_values(self, name: str) -> list[Any]:
        """Return the value of each event, for few events."""
        if name in self.derived:
            return self._derive_values(self.derived[name])
        if name not in self.events:
            return [None] * len(self)
        none, values = pd.NA, frames.values_of_few(self.events, name)
        # NaN and NaT are missing values too; they do not equal themselves
        return [None if value is none or value != value else value for value in values]

    def _derive_values(self, derived: DerivedColumn) -> list[Any]:
        if isinstance(derived, MappedColumn):
            return [derived.convert(value) for value in self._read_values(derived.column)]
        values: list[Any] = derived(self.events).tolist()
        return values

    def _encode(self, name: str) -> EncodedColumn:
        if self.is_few:
            return encode_few(self._read_values(name))
        if name in self.derived:
            return self._derive(self.derived[name])
        xp = frames.array_module_of(self.events)
        if name not in self.events:
            return xp.zeros(len(self), np.int64), [None]
        if known := frames.dictionary_of(self.events, name):
            return known.factorize()
        column = frames.column_of(self.events, name)
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
            return encode_numbers(frames.values_of(column).astype(np.int64, copy=False))
        if isinstance(column.dtype, pd.BooleanDtype):
            return encode_flags(column)
        code, distinct = frames.factorize_values(column)
        return xp.where(code < 0, len(distinct), code), [*distinct, None]

    def _derive(self, derived: DerivedColumn) -> EncodedColumn:
        if isinstance(derived, MappedColumn):
            return map_values(self.column(derived.column), derived.convert)
        return encode_numbers(derived(self.events))


def encode_few(values: Sequence[Hashable]) -> tuple[CodeArray, list[Any]]:
    """Encode Python values: return codes (N,), and the distinct values in the order of their first occurrence."""
    places: dict[Any, int] = {}
    code = np.array([places.setdefault(value, len(places)) for value in values], np.int64)
    return code, list(places)


def encode_flags(flags: Any) -> EncodedColumn:
    """Encode a pandas column of nullable flags: (N,) -> codes (N,), values."""
    code, used = arrays.renumber(flags.to_numpy(np.int64, na_value=FLAGS.index(None)), len(FLAGS))
    return code, [FLAGS[at] for at in used.tolist()]


def encode_numbers(values: Array) -> EncodedColumn:
    """Encode integers: (N,) -> codes (N,), values."""
    code, distinct = arrays.unique_inverse(values)
    return code, distinct.tolist()


def map_values(column: EncodedColumn, convert: Callable[[Any], Any]) -> EncodedColumn:
    """Return an encoded column with its values converted; values that become equal share a code."""
    code, values = column
    places: dict[Any, int] = {}
    place = [places.setdefault(convert(value), len(places)) for value in values]
    return arrays.to_device_of(np.array(place, np.int64), code)[code], list(places)
