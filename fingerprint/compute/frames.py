"""Table functions for which pandas, `ColumnTable` and cuDF differ; codes and numbers stay on the device of the table.

Example:
    >>> select_rows(pd.DataFrame({"service": ["s3", "ec2"]}, index=[7, 9]), np.array([False, True])).to_dict("list")
    {'service': ['ec2']}
    >>> factorize_values(pd.Series(["s3", None, "ec2", "s3"]))
    (array([ 0, -1,  1,  0]), ['s3', 'ec2'])

A table of events has some fifty columns, and taking rows costs time for each. So if all rows are selected, the table itself is
returned. Only the distinct values of a column on a device are copied to the host; codes stay. A device keeps times without a
zone, in UTC.

narwhals (2.28) was tried in place of this module and is not enough: it has no factorize, no gather by an array of a device, and
no access to a column's buffers. Three of the functions here could use it, at the cost of one more conversion a call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from fingerprint.compute import arrays
from fingerprint.compute.arrays import Array
from fingerprint.compute.column_table import ColumnTable, TextDictionary

Frame = Any  # a DataFrame of pandas, or of a library with cuDF's interface; or a ColumnTable
FrameColumn = Any  # a Series of such a library, or an array of a ColumnTable

_HOST_TYPES = (ColumnTable, np.ndarray)  # a fast path, needed a hundred times a step
_HOST_LIBRARIES = ("pandas", "numpy", ColumnTable.__module__.partition(".")[0])
_MICROSECONDS = np.dtype("datetime64[us]")
NOT_A_TIME = np.iinfo(np.int64).min  # a missing time among microseconds, as in NumPy


def library_of(frame: Frame | FrameColumn) -> Any:
    """Return the module of a table's or column's library: pandas for all in host memory, or cudf."""
    name = type(frame).__module__.partition(".")[0]
    return pd if name in _HOST_LIBRARIES else sys.modules[name]


def is_host_frame(frame: Frame | FrameColumn) -> bool:
    """Return whether a table or column lies in host memory."""
    return type(frame) in _HOST_TYPES or library_of(frame) is pd


def array_module_of(frame: Frame | FrameColumn) -> Any:
    """Return the module of arrays on the device of the table: numpy or cupy."""
    return np if is_host_frame(frame) else arrays.namespace(frame.index.values)


def column_of(frame: Frame, name: str) -> FrameColumn:
    """Return a column of a table; for a ColumnTable its array, which takes a tenth of the time of a Series."""
    return frame.array(name) if isinstance(frame, ColumnTable) else frame[name]


def values_of_few(frame: Frame, name: str) -> list[Any]:
    """Return the values of a column as N Python objects, for a table with few rows on the host."""
    return frame.values(name) if isinstance(frame, ColumnTable) else [*frame[name]]


def dictionary_of(frame: Frame, name: str) -> TextDictionary | None:
    """Return a text column with its dictionary if the table is a ColumnTable that has one, else None."""
    return frame.dictionary(name) if isinstance(frame, ColumnTable) else None


def texts_of(frame: Frame, name: str) -> FrameColumn | TextDictionary:
    """Return a text column, with its dictionary if that has fewer values than the table has rows."""
    known = dictionary_of(frame, name)
    return known if known and len(known.values) < len(frame) else column_of(frame, name)


def select_rows(frame: Frame, which: Array) -> Frame:
    """Return the rows of a mask (N,) or an index (M,), numbered from 0; the table itself if a mask leaves none out."""
    if not is_host_frame(frame):
        return _select_device_rows(frame, which)
    which = arrays.to_host(which)
    if isinstance(frame, ColumnTable):
        places = which.nonzero()[0] if which.dtype == bool else which
        return frame if which.dtype == bool and len(places) == len(frame) else frame.take(places)
    numbered = pd.RangeIndex(len(frame))
    if which.dtype == bool:
        if which.all() and frame.index.equals(numbered):
            return frame
        which = np.flatnonzero(which)
    out = frame.take(which) if len(which) else frame.iloc[:0]
    out.index = numbered[: len(which)]  # `reset_index` would copy every column
    return out


def slice_rows(frame: Frame, rows: slice) -> Frame:
    """Return neighbouring rows of a table on the host, numbered from 0, which share its memory."""
    if isinstance(frame, ColumnTable):
        return frame.take(np.arange(len(frame))[rows])
    out = frame.iloc[rows]
    out.index = pd.RangeIndex(len(out))
    return out


def select_columns(frame: Frame, names: Sequence[str]) -> Frame:
    """Return some columns of a table, as `frame[names]` does; for pandas tables with few rows in a fifth of the time."""
    if isinstance(frame, ColumnTable):
        return frame.select(names)
    if not is_host_frame(frame) or not frame.columns.is_unique:
        return frame[list(names)]
    return frame.take([frame.columns.get_loc(name) for name in names], axis=1)


def _select_device_rows(frame: Frame, which: Array) -> Frame:
    xp = array_module_of(frame)
    which = arrays.to_device_of(which, frame.index.values) if arrays.is_on_host(which) else which
    if which.dtype == bool:
        which = xp.flatnonzero(which)
        if len(which) == len(frame):
            return frame.reset_index(drop=True)
    return frame.take(which).reset_index(drop=True)


def to_pandas(frame: Frame) -> pd.DataFrame:
    """Return a pandas table itself, other tables as one of pandas; one from a device gets the column types of `flatten`."""
    if isinstance(frame, ColumnTable):
        return frame.to_pandas()
    if is_host_frame(frame):
        return frame
    table = frame.to_arrow(preserve_index=False)
    zoned = [_with_time_zone(table[name]) for name in table.column_names]
    return from_arrow(pa.table(dict(zip(table.column_names, zoned, strict=True))))


def from_arrow(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as one of pandas, with the types of `flatten`; dictionaries become texts."""
    texts = [pa.large_string() if pa.types.is_dictionary(kind) else kind for kind in table.schema.types]
    plain = table.cast(pa.schema(zip(table.column_names, texts, strict=True)))
    return plain.to_pandas(types_mapper={pa.bool_(): pd.BooleanDtype()}.get)


def without_other_rows(frame: Frame) -> Frame:
    """Return a table to be kept: a ColumnTable without the rows of the table that it was taken from; others unchanged."""
    return frame.compact() if isinstance(frame, ColumnTable) else frame


def to_host(frame: Frame) -> pd.DataFrame | ColumnTable:
    """Return a table on the host, to be kept: a compact ColumnTable, or for other tables the result of `to_pandas`."""
    return without_other_rows(frame) if isinstance(frame, ColumnTable) else to_pandas(frame)


def to_column_table(frame: Frame) -> Frame:
    """Return a pandas table as a ColumnTable; others are returned unchanged."""
    return ColumnTable.from_pandas(frame) if isinstance(frame, pd.DataFrame) else frame


def to_device(frame: pd.DataFrame, dataframe_library: str) -> Frame:
    """Return a pandas table of events as one of the named library. Records are bytes in pandas, texts in cuDF."""
    if import_library(dataframe_library) is pd:
        return frame
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    plain = {name: _without_time_zone(table[name]) for name in table.column_names}
    return import_library(dataframe_library).DataFrame.from_arrow(pa.table(plain))


def with_columns(frame: Frame, columns: Mapping[str, Any]) -> Frame:
    """Return a copy of a table with further columns, arrays (N,) or scalars.

    pandas adds columns one by one, which takes most of the time if a table has few rows; here all are added at once, in a quarter
    of it. Arrays of objects keep their type.
    """
    if isinstance(frame, ColumnTable):
        return frame.with_columns(columns)
    if not is_host_frame(frame) or any(name in frame for name in columns):
        return frame.assign(**columns)
    made = {name: _as_column(each, frame.index) for name, each in columns.items()}
    return pd.concat([frame, pd.DataFrame(made, index=frame.index)], axis=1)


def _as_column(values: Any, index: pd.Index) -> Any:
    """Return the values of a new column; an array of objects as a Series, because pandas would make Arrow texts of it."""
    is_objects = isinstance(values, np.ndarray) and values.dtype.kind == "O"
    return pd.Series(values, index, object) if is_objects else values


def with_object_texts(frame: Frame) -> Frame:
    """Return a table whose texts are Python strings or None, in one block; a table on a device is returned unchanged.

    Taking rows costs 15 microseconds for each column of Arrow texts, however few the rows, and as much for the whole block.
    """
    if not is_host_frame(frame) or not any(kind == "str" for kind in frame.dtypes):
        return frame
    return ColumnTable.from_pandas(frame).to_pandas().set_axis(frame.index)


def concat_frames(parts: Sequence[Frame]) -> Frame:
    """Return the concatenation of tables of one library, at least one, numbered from 0; empty ones need no columns."""
    some = [part for part in parts if len(part)] or list(parts[:1])
    if any(isinstance(part, ColumnTable) for part in some):
        return ColumnTable.concat([to_column_table(part) for part in some])
    return library_of(some[0]).concat(some, ignore_index=True)


def import_library(dataframe_library: str) -> Any:
    """Return the library with this name, and import it at the first call."""
    __import__(dataframe_library)
    return sys.modules[dataframe_library]


def import_array_library(dataframe_library: str) -> Any:
    """Return the module of the arrays that belong to the tables of this library."""
    return array_module_of(import_library(dataframe_library).Series([0]))


def import_low_level_library(dataframe_library: str) -> Any:
    """Return the library beneath cuDF (pylibcudf), which gives access to the buffers of columns."""
    return import_library({"cudf": "pylibcudf"}.get(dataframe_library, dataframe_library))


def epoch_microseconds(column: FrameColumn) -> Array:
    """Return times (N,) as microseconds since 1970, on the device of the column; NOT_A_TIME for missing ones."""
    if is_host_frame(column):
        plain = column if isinstance(column, np.ndarray) else column.to_numpy("datetime64[us]")
        return plain.astype(_MICROSECONDS, copy=False).view(np.int64)
    return column.astype("int64").to_cupy(na_value=NOT_A_TIME)


def epoch_seconds(column: FrameColumn) -> Array:
    """Return times (N,), none of them missing, as whole seconds since 1970, on the device of the column."""
    return epoch_microseconds(column) // 1_000_000


def to_times(seconds: NDArray[np.int64]) -> Any:
    """Return whole seconds since 1970 (N,) on the host as times of a ColumnTable."""
    return (seconds * 1_000_000).view("datetime64[us]")


def factorize_values(column: FrameColumn) -> tuple[Array, list[Any]]:
    """Return codes (N,), on the device of the column, -1 for missing values, and the distinct values, on the host."""
    if is_host_frame(column):
        codes, distinct = _factorize_on_host(column)
        return codes, [*distinct]
    codes, distinct = column.factorize()
    return codes, distinct.to_arrow().to_pylist()


def factorize_codes(column: FrameColumn) -> tuple[Array, int]:
    """Return codes (N,), on the device of the column, -1 for missing values, and the number of distinct values."""
    codes, distinct = _factorize_on_host(column) if is_host_frame(column) else column.factorize()
    return codes, len(distinct)


def _factorize_on_host(column: FrameColumn) -> tuple[Array, Any]:
    plain: Any = column.array if isinstance(column, pd.Series) else column
    codes, distinct = pd.factorize(plain)
    return codes, distinct


def values_of(column: FrameColumn) -> Array:
    """Return the array (N,) of a column of numbers, on its device."""
    return column if isinstance(column, np.ndarray) else column.values


def present_mask(column: FrameColumn) -> Array:
    """Return whether each value (N,) is present, not missing, on the device of the column."""
    return np.asarray(pd.notna(column)) if is_host_frame(column) else column.notna().values


def true_mask(flags: FrameColumn) -> NDArray[np.bool_]:
    """Return whether each flag (N,) is true, on the host; a missing one is not."""
    if isinstance(flags, np.ndarray) and flags.dtype == bool:
        return flags
    return pd.Series(flags).eq(True).to_numpy(bool, na_value=False)


def make_text_column(values: Sequence[str | None], codes: Array, frame: Frame) -> FrameColumn:
    """Return a column of the texts `values[codes]` (N,), in the library of `frame`, on whose device `codes` lie."""
    if isinstance(frame, (ColumnTable, np.ndarray)):
        return np.array([*values], object)[codes]
    if is_host_frame(frame):
        return pd.Series(pd.array(list(values), dtype="str").take(codes), frame.index)
    there = library_of(frame).Series.from_arrow(pa.array(values, pa.string()))
    return there.take(codes).reset_index(drop=True)


def text_or_empty(value: object) -> str:
    """Return a value of a column as text, empty for a missing one.

    >>> [text_or_empty(each) for each in ("s3", None, float("nan"), pd.NA)]
    ['s3', '', '', '']
    """
    return "" if value is None or value is pd.NA or value != value else str(value)


def map_texts(column: FrameColumn, convert: Callable[[str | None], str | None]) -> FrameColumn:
    """Return a text column with its values converted; `convert` is called once for each distinct value, and for None."""
    codes, distinct = factorize_values(column)
    places = array_module_of(column).where(codes < 0, len(distinct), codes)
    return make_text_column([convert(each) for each in [*distinct, None]], places, column)


def text_from_buffers(characters: Array, offsets: Array, dataframe_library: str) -> FrameColumn:
    """Return a text column over device memory: UTF-8 bytes (B,) uint8, and the offsets of the texts (N + 1,) int32."""
    there, low = import_library(dataframe_library), import_low_level_library(dataframe_library)
    column = low.Column(
        low.DataType(low.TypeId.STRING),
        len(offsets) - 1,
        low.gpumemoryview(characters),
        None,
        0,
        0,
        [low.Column.from_cuda_array_interface(offsets)],
    )
    return there.Series.from_pylibcudf(column)


def utf8_buffers(column: FrameColumn) -> tuple[Array, Array]:
    """Return the UTF-8 bytes (B,) of a text column on a device, and the offsets (N + 1,) int64; missing texts are empty."""
    xp, (there, _) = array_module_of(column), column.to_pylibcudf()
    if not len(column):
        return xp.zeros(0, xp.uint8), xp.zeros(1, xp.int64)
    low = import_low_level_library(library_of(column).__name__)
    borders = there.child(0)
    wide = xp.int64 if borders.type().id() == low.TypeId.INT64 else xp.int32
    at = xp.asarray(borders.data()).view(wide)[there.offset() : there.offset() + len(column) + 1]
    data = there.data()
    return (xp.zeros(0, xp.uint8) if data is None else xp.asarray(data).view(xp.uint8)), at.astype(xp.int64)


def _with_time_zone(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return values.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(values.type) else values


def _without_time_zone(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values in the types of a device: times without a zone, bytes and large texts as texts."""
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us"))
    wide = (
        pa.types.is_large_string(values.type)
        or pa.types.is_binary(values.type)
        or pa.types.is_large_binary(values.type)
    )
    return values.cast(pa.string()) if wide else values
