"""A table on the host that takes rows lazily, for events while they are measured, and for pending events.

Example:
    >>> table = ColumnTable.from_pandas(pd.DataFrame({"service": ["s3", "ec2"], "action": ["GetObject", "RunInstances"]}))
    >>> few = table.take(np.array([1])).with_columns({"idle": np.array([3])})
    >>> few.array("service"), few["idle"].tolist()
    (array(['ec2'], dtype=object), [3])

Taking rows of a pandas table, or adding a column, takes about a tenth of a millisecond however few rows there are, and a step
does so twenty times. Here taking rows only stores their places, and a column is gathered when it is first read.

Texts that came with a dictionary keep it (`TextDictionary`), so their distinct values are already known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fingerprint.compute import arrays

# (N,) of NumPy (texts are Python strings or None, times are in UTC), or of pandas for flags
ColumnArray = Any
Places = NDArray[np.intp]

# Up to so many rows, all texts of a column are made, because finding the distinct ones would take longer.
FEW_ROWS = 1000
# `compact` keeps a dictionary with at least so many rows for each value; a larger one could be most of the table.
KEPT_ROWS_A_VALUE = 4


class TextDictionary(NamedTuple):
    """Texts of N rows: `codes` (N,) are indices in the distinct `values` (D,), in which None stands for a missing text."""

    codes: Places
    values: NDArray[np.object_]

    def factorize(self) -> tuple[Places, list[str | None]]:
        """Return codes (N,) and values of the values that occur alone, in the order of their first occurrence."""
        codes, used = arrays.renumber(self.codes, len(self.values))
        return codes, self.values[used].tolist()


# A column: an array (M,), the places (N,) of the table's rows in it (None for all), and a dictionary. Texts with a dictionary,
# and flags, have codes as the array and values (D,) as the dictionary, which is None for other columns.
_Column = tuple[ColumnArray, Places | None, Any]
# The dictionary of flags. Taking rows of pandas' own array of flags would take four times as long.
_FLAGS = pd.array([False, True, None], "boolean")
_PLAIN_FLAGS = np.array([False, True, None], object)


class ColumnTable:
    """N rows of named columns."""

    __slots__ = ("_columns", "_length", "_texts")

    def __init__(self, columns: Mapping[str, _Column], length: int) -> None:
        self._columns, self._length = dict(columns), length
        self._texts: dict[str, NDArray[np.object_]] = {}  # gathered texts of columns with a dictionary

    @classmethod
    def of_arrays(cls, columns: Mapping[str, ColumnArray], length: int) -> ColumnTable:
        """Return a table of arrays (N,) with N = `length`."""
        return cls({name: (array, None, None) for name, array in columns.items()}, length)

    @classmethod
    def from_pandas(cls, frame: pd.DataFrame) -> ColumnTable:
        """Return a pandas table as a ColumnTable, with texts as Python strings."""
        return cls({str(name): _to_column(column) for name, column in frame.items()}, len(frame))

    @classmethod
    def from_arrow(cls, table: pa.Table) -> ColumnTable:
        """Return an Arrow table as a ColumnTable, with texts and bytes as Python objects; dictionaries are kept."""
        table = table.unify_dictionaries()
        return cls({name: _arrow_to_column(table[name]) for name in table.column_names}, len(table))

    def __len__(self) -> int:
        return self._length

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __getitem__(self, name: str) -> pd.Series:
        """Return a column as a pandas Series; `array` takes a tenth of the time."""
        return _to_series(self.array(name))

    def array(self, name: str) -> ColumnArray:
        """Return a column as an array (N,)."""
        array, rows, values = self._columns[name]
        if values is not None:
            if name not in self._texts:
                self._texts[name] = values.take(self._codes(name))
            return self._texts[name]
        if rows is not None:
            array = array.take(rows)  # for arrays of pandas twice as fast as indexing
            self._columns[name] = array, None, None
        return array

    def values(self, name: str) -> list[Any]:
        """Return the values of a column as N Python objects, for few rows; a missing one may be None, NaN or NaT."""
        array, rows, values = self._columns[name]
        if rows is not None:
            array = array.take(rows)
        if values is not None:
            array = _plain_values(values).take(array)
        plain: list[Any] = array.tolist()
        return plain

    def dictionary(self, name: str) -> TextDictionary | None:
        """Return a column with its dictionary, None if it has none. Some values may not occur."""
        values = self._columns[name][2]
        if values is None:
            return None
        return TextDictionary(self._codes(name), _plain_values(values))

    def _codes(self, name: str) -> Places:
        codes, rows, values = self._columns[name]
        if rows is not None:
            codes = codes.take(rows)
            self._columns[name] = codes, None, values
        return codes

    def take(self, places: Places) -> ColumnTable:
        """Return the rows at places (K,)."""
        moved = {id(None): places}  # by identity, because columns share their places
        columns: dict[str, _Column] = {}
        for name, (array, rows, values) in self._columns.items():
            if rows is not None and id(rows) not in moved:
                moved[id(rows)] = rows[places]
            columns[name] = array, moved[id(rows)], values
        return ColumnTable(columns, len(places))

    def compact(self) -> ColumnTable:
        """Return the table with copies of its rows alone, to be kept; otherwise it would keep those of the whole poll in memory.

        A dictionary with far fewer values than rows is kept, because codes take a tenth of the time of texts.
        """
        return ColumnTable({name: self._compact_column(name) for name in self}, self._length)

    def _compact_column(self, name: str) -> _Column:
        values = self._columns[name][2]
        if values is None or len(values) * KEPT_ROWS_A_VALUE > self._length:
            return self.array(name), None, None
        return self._codes(name), None, values

    def select(self, names: Sequence[str]) -> ColumnTable:
        """Return a table with some of the columns."""
        return ColumnTable({name: self._columns[name] for name in names}, self._length)

    def with_columns(self, columns: Mapping[str, Any]) -> ColumnTable:
        """Return a table with columns added or replaced: arrays, pandas columns or texts with a dictionary, (N,) each."""
        added = {name: _to_column(each) for name, each in columns.items()}
        return ColumnTable(self._columns | added, self._length)

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas table, numbered from 0. Object columns come last, in one block, so taking rows of them is one step."""
        objects = [name for name in self if self.array(name).dtype == object]
        block = np.empty((len(objects), self._length), object)
        for place, name in enumerate(objects):
            block[place] = self.array(name)
        numbered = pd.RangeIndex(self._length)
        others = pd.DataFrame({name: self[name] for name in self if name not in objects}, numbered)
        return pd.concat([others, pd.DataFrame(block.T, numbered, objects, object, copy=False)], axis=1)

    @staticmethod
    def concat(parts: Sequence[ColumnTable]) -> ColumnTable:
        """Return the concatenation of tables, at least one; columns that a table lacks are missing in its rows."""
        names = dict.fromkeys(name for part in parts for name in part)
        together = {name: _concat_columns(parts, name) for name in names}
        return ColumnTable(together, sum(map(len, parts)))


def to_array(column: Any) -> ColumnArray:
    """Return an array itself, or a pandas column as an array: texts are Python strings or None, times are in UTC.

    Each distinct text of many is made once.
    """
    array, _, values = _to_column(column)
    return array if values is None else values.take(array)


def _to_column(column: Any) -> _Column:
    """Return an array, a pandas column or texts with a dictionary as a `_Column`; many texts get a dictionary."""
    if isinstance(column, TextDictionary):
        return column.codes, None, column.values
    if not isinstance(column, pd.Series):
        return column, None, None
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return np.asarray(column.array, f"datetime64[{column.dtype.unit}]"), None, None
    if isinstance(column.dtype, pd.BooleanDtype):
        return column.array.to_numpy(np.int8, na_value=2), None, _FLAGS
    if not isinstance(column.dtype, pd.StringDtype):
        return column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array, None, None
    if len(column) <= FEW_ROWS:
        return _text_objects(column.array), None, None
    codes, distinct = column.array.factorize()
    return np.where(codes < 0, len(distinct), codes), None, np.append(_text_objects(distinct), [None])


def _plain_values(values: Any) -> NDArray[np.object_]:
    """Return the values of a dictionary as Python objects, also for flags."""
    return values if isinstance(values, np.ndarray) else _PLAIN_FLAGS


def _arrow_to_column(column: pa.ChunkedArray) -> _Column:
    """Return a column of Arrow as a `_Column`. Bytes become Python objects, so taking rows does not copy them."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        texts = column.combine_chunks()
        distinct = np.array([*texts.dictionary.to_pylist(), None], object)
        return pc.fill_null(texts.indices, len(distinct) - 1).to_numpy(), None, distinct
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return column.to_numpy(), None, None
    return _to_column(column.to_pandas(types_mapper={pa.bool_(): pd.BooleanDtype()}.get))


def _text_objects(texts: Any) -> ColumnArray:
    """Return an array of pandas texts as Python strings or None, converted by Arrow and not one by one."""
    return np.asarray(pa.array(texts).to_numpy(zero_copy_only=False), object)


def _concat_columns(parts: Sequence[ColumnTable], name: str) -> _Column:
    """Return a column of all parts, with one dictionary if each of them has one."""
    dictionaries: list[Any] = [part._columns[name][2] if name in part else None for part in parts]
    first = dictionaries[0]
    if first is not None and all(values is first for values in dictionaries):  # of one batch, or flags
        return np.concatenate([part._codes(name) for part in parts]), None, first
    if all(isinstance(values, np.ndarray) for values in dictionaries):
        return _merge_dictionaries([part._codes(name) for part in parts], dictionaries)
    return _concat([_array_or_missing(part, name) for part in parts]), None, None


def _merge_dictionaries(codes: Sequence[Places], dictionaries: Sequence[NDArray[np.object_]]) -> _Column:
    """Return codes of several dictionaries, each with distinct values, concatenated (N,) as codes of one with all values."""
    places: dict[Any, int] = {}
    moved = [
        np.array([places.setdefault(value, len(places)) for value in values.tolist()], np.intp).take(code)
        for code, values in zip(codes, dictionaries, strict=True)
    ]
    return np.concatenate(moved), None, np.array([*places], object)


def _array_or_missing(part: ColumnTable, name: str) -> ColumnArray:
    return part.array(name) if name in part else np.full(len(part), None, object)


def _concat(arrays: Sequence[ColumnArray]) -> ColumnArray:
    if all(each.dtype == arrays[0].dtype for each in arrays):
        if isinstance(arrays[0], np.ndarray):
            return np.concatenate(arrays)
        return type(arrays[0])._concat_same_type(arrays)  # of pandas' interface for its arrays
    return to_array(pd.concat([_to_series(each) for each in arrays], ignore_index=True))


def _to_series(array: ColumnArray) -> pd.Series:
    if array.dtype.kind == "M":
        return pd.Series(pd.DatetimeIndex(array, tz="UTC"), copy=False)
    return pd.Series(array, dtype=array.dtype, copy=False)
