"""A fake of cuDF in this process' own memory: what our code calls of it, and nothing else, as cuDF 26.10 answers.

Example:
    >>> import fake_cudf
    >>> frame = fake_cudf.DataFrame.from_arrow(pa.table({"service": ["s3", None, "s3"]}))
    >>> frame["service"].factorize()
    (fake_cupy.array([0, -1, 0]), <Index of 1>)

It is as strict: arrays are those of `fake_cupy`, never NumPy's; no one goes through a column one by one; a column with gaps has
no `values`; a comparison with a gap is a gap. What is called and not here is an error that says so: look into cuDF's sources
whether it is there, and what it gives, before you add it. `pylibcudf`, the library beneath, is this module too.

Its reader of JSON takes lines as `json_filter.cu` writes them, where libcudf's is sure (docs/explanation/reading.md): a text is
unescaped, a literal is the text it was, null and what is missing are gaps, a line that is no JSON is a row of gaps. It refuses
all else. `array-api-strict` takes its place nowhere: it has arrays and no tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import pairwise
from typing import Any, NoReturn

import fake_cupy
import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
from fake_cupy import ndarray


class _Strict:
    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"the fake of cuDF has no {type(self).__name__}.{name}")

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"{type(self).__name__} object is not iterable")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("Implicit conversion to a host NumPy array via __array__ is not allowed")

    def __bool__(self) -> NoReturn:
        raise TypeError(f"The truth value of a {type(self).__name__} is ambiguous")


def _here(value: Any) -> Any:
    """What pandas is given for an argument."""
    if isinstance(value, (Series, Index)):
        return value._there
    if isinstance(value, ndarray):
        return value._there
    if isinstance(value, (np.ndarray, pd.Series)):
        raise TypeError(f"{type(value)} lies on the host")
    return value


def _column(values: Any) -> pd.Series:
    """As cuDF keeps it: texts, whole numbers, truths (both perhaps with gaps), times without a zone; numbered from 0."""
    there = pd.Series(values).reset_index(drop=True)
    if there.dtype == object:
        return there.astype("str")
    if isinstance(there.dtype, pd.DatetimeTZDtype):
        raise NotImplementedError("times with a zone are not kept there")
    if there.dtype == bool:
        return there.astype("boolean")
    if there.dtype.kind in "iu" and not isinstance(there.dtype, np.dtype) and not there.isna().any():
        return there.astype(there.dtype.numpy_dtype)
    return there


class Index(_Strict):
    def __init__(self, there: Any) -> None:
        self._there = there

    def __len__(self) -> int:
        return len(self._there)

    @property
    def values(self) -> ndarray:
        return ndarray(np.asarray(self._there))

    def to_arrow(self) -> pa.Array:
        fake_cupy.moved.down += 1
        out = _arrow(pd.Series(self._there))
        fake_cupy.moved.bytes_down += out.nbytes
        return out


class Series(_Strict):
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Any) -> None:
        self._there = _column(_here(values))

    @classmethod
    def _of(cls, there: pd.Series) -> Series:
        made = cls.__new__(cls)
        made._there = _column(there)
        return made

    @classmethod
    def from_arrow(cls, array: pa.Array | pa.ChunkedArray) -> Series:
        fake_cupy.moved.up += 1
        fake_cupy.moved.bytes_up += array.nbytes
        return cls._of(array.to_pandas(types_mapper={pa.bool_(): pd.BooleanDtype()}.get))

    @classmethod
    def from_pylibcudf(cls, column: Column) -> Series:
        return cls._of(pd.Series(column._texts(), dtype="str"))

    def to_pylibcudf(self) -> tuple[Column, dict[str, Any]]:
        """Of texts alone; as one of several columns of a table that was cut, so it begins somewhere."""
        texts = [(text or "").encode() for text in self._there.where(self._there.notna(), None).tolist()]
        borders = np.concatenate([[0, 3], 3 + np.cumsum([len(text) for text in texts], dtype=np.int64)])
        characters = ndarray(np.frombuffer(b"xyz" + b"".join(texts), np.uint8))
        data = gpumemoryview(characters) if len(characters) else None
        places = Column.from_cuda_array_interface(ndarray(borders.astype(np.int32)))
        return Column(DataType(TypeId.STRING), len(texts), data, None, 0, 1, [places]), {}

    def __len__(self) -> int:
        return len(self._there)

    def __repr__(self) -> str:
        return f"fake_cupy:\n{self._there!r}"

    @property
    def dtype(self) -> Any:
        return np.dtype(bool) if self._there.dtype == "boolean" else self._there.dtype

    @property
    def index(self) -> Index:
        return Index(pd.RangeIndex(len(self)))

    @property
    def values(self) -> ndarray:
        if self._there.isna().any() or self.dtype.kind not in "biu":
            raise ValueError("cannot convert to an array with missing values, or of texts and times")
        return ndarray(self._there.to_numpy(self.dtype))

    def to_cupy(self, dtype: Any = None, copy: bool = False, na_value: Any = None) -> ndarray:
        filled = self if na_value is None else self.fillna(na_value)
        return filled.values if dtype is None else filled.values.astype(dtype)

    def astype(self, dtype: str) -> Series:
        kinds = {"int64": "Int64", "datetime64[us]": "datetime64[us]", "bool": "boolean", "str": "str"}
        there = self._there
        if there.dtype.kind == "M" and dtype == "int64":
            numbers = there.astype("int64").astype("Int64")
            return Series._of(numbers.mask(there.isna()))
        if dtype == "datetime64[us]" and there.dtype.kind != "M":
            times = pd.Series(there.fillna(0).to_numpy(np.int64).astype("datetime64[us]"))
            return Series._of(times.mask(there.isna().to_numpy(bool)))
        return Series._of(there.astype(kinds[dtype]))

    def isna(self) -> Series:
        return Series._of(self._there.isna())

    def notna(self) -> Series:
        return Series._of(self._there.notna())

    def fillna(self, value: Any) -> Series:
        return Series._of(self._there.fillna(_here(value)))

    def mask(self, cond: Any, other: Any = None) -> Series:
        where = pd.Series(_here(cond)).fillna(False).to_numpy(bool)
        there = self._there.astype("Int64") if self._there.dtype.kind in "iu" else self._there
        return Series._of(there.mask(where, pd.NA if other is None else other))

    def _compared(self, method: str, other: Any) -> Series:
        result = getattr(self._there, method)(_here(other)).astype("boolean")
        return Series._of(result.mask(self._there.isna()))

    def __eq__(self, other: object) -> Series:  # type: ignore[override]
        return self._compared("eq", other)

    def __ne__(self, other: object) -> Series:  # type: ignore[override]
        return self._compared("ne", other)

    def __and__(self, other: Any) -> Series:
        return Series._of(self._there & _here(other))

    def __or__(self, other: Any) -> Series:
        return Series._of(self._there | _here(other))

    def __invert__(self) -> Series:
        return Series._of(~self._there)

    def take(self, indices: Any) -> Series:
        return Series._of(self._there.take(_places(indices, len(self))))

    @property
    def iloc(self) -> _Sliced:
        return _Sliced(lambda part: Series._of(self._there.iloc[part]))

    def reset_index(self, *, drop: bool) -> Series:
        return self

    def factorize(self) -> tuple[ndarray, Index]:
        """Codes in the order that unique values come in, which no one promises: here the reverse of pandas'."""
        codes, distinct = pd.factorize(self._there)
        turned = np.where(codes < 0, -1, len(distinct) - 1 - codes)
        return ndarray(turned.astype(np.int64)), Index(pd.Series(distinct)[::-1].reset_index(drop=True))

    def to_arrow(self) -> pa.Array:
        fake_cupy.moved.down += 1
        out = _arrow(self._there)
        fake_cupy.moved.bytes_down += out.nbytes
        return out


def _arrow(there: pd.Series) -> pa.Array:
    made = pa.Array.from_pandas(there)
    made = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
    return made.cast(pa.large_string()) if pa.types.is_string(made.type) else made


def _places(indices: Any, count: int) -> np.ndarray[Any, Any]:
    """cuDF takes places from either side, and looks that they are there."""
    places = indices if isinstance(indices, np.ndarray) else np.asarray(_here(indices))
    if len(places) and not (-count <= places.min() and places.max() < count):
        raise IndexError("Gather map index is out of bounds.")
    return places.astype(np.int64)


class _Sliced:
    def __init__(self, cut: Any) -> None:
        self.cut = cut

    def __getitem__(self, part: Any) -> Any:
        if not isinstance(part, slice):
            raise TypeError("only slices are taken here: `take` takes places")
        return self.cut(part)


class _Struct(_Strict):
    """A column of groups: what is inside, each a column."""

    def __init__(self, inside: dict[str, Any]) -> None:
        self.inside = inside

    @property
    def struct(self) -> _Struct:
        return self

    def field(self, name: str) -> Any:
        return self.inside[name]


class DataFrame(_Strict):
    def __init__(self, data: dict[str, Any]) -> None:
        self._columns = {name: _raised(values) for name, values in data.items()}

    @classmethod
    def from_arrow(cls, table: pa.Table) -> DataFrame:
        return cls({name: Series.from_arrow(table[name]) for name in table.column_names})

    @classmethod
    def from_pylibcudf(cls, table: _Table) -> DataFrame:
        return cls(table.columns)

    def __len__(self) -> int:
        return len(next((each for each in self._columns.values() if isinstance(each, Series)), ()))

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, list):
            return DataFrame({name: self._columns[name] for name in which})
        if not isinstance(which, str):
            raise NotImplementedError("columns are asked for by name")
        return self._columns[which]

    def __setitem__(self, name: str, values: Any) -> None:
        column = _raised(values)
        if self._columns and len(column) != len(self):
            raise ValueError("Length of values does not match length of index")
        self._columns[name] = column

    @property
    def columns(self) -> pd.Index:
        return pd.Index(list(self._columns))

    @property
    def index(self) -> Index:
        return Index(pd.RangeIndex(len(self)))

    def copy(self, deep: bool = True) -> DataFrame:
        return DataFrame(dict(self._columns))

    def assign(self, **columns: Any) -> DataFrame:
        out = self.copy()
        for name, values in columns.items():
            out[name] = values
        return out

    def drop(self, *, columns: Sequence[str]) -> DataFrame:
        return DataFrame({name: each for name, each in self._columns.items() if name not in columns})

    def take(self, indices: Any) -> DataFrame:
        return DataFrame({name: each.take(indices) for name, each in self._columns.items()})

    @property
    def iloc(self) -> _Sliced:
        return _Sliced(
            lambda part: DataFrame({name: each.iloc[part] for name, each in self._columns.items()})
        )

    def reset_index(self, *, drop: bool) -> DataFrame:
        return self

    def sort_values(self, by: str | list[str], *, ignore_index: bool) -> DataFrame:
        keys = pd.DataFrame(
            {name: self._columns[name]._there for name in ([by] if isinstance(by, str) else by)}
        )
        return self.take(ndarray(keys.sort_values(list(keys), kind="stable").index.to_numpy()))

    def to_arrow(self, preserve_index: bool | None = None) -> pa.Table:
        return pa.table({name: each.to_arrow() for name, each in self._columns.items()})


def _raised(values: Any) -> Any:
    return values if isinstance(values, (Series, _Struct)) else Series(values)


def concat(parts: Sequence[DataFrame], *, ignore_index: bool) -> DataFrame:
    """Of like tables."""
    first = parts[0]
    if any(list(part.columns) != list(first.columns) for part in parts):
        raise ValueError("the fake puts together tables of the same columns")
    kinds = [{part[name].dtype for part in parts} for name in first.columns]
    if any(len(kind) > 1 for kind in kinds):
        raise TypeError(f"columns of different types: {kinds}")
    return DataFrame(
        {name: Series._of(pd.concat([part[name]._there for part in parts])) for name in first.columns}
    )


# --- the library beneath ----------------------------------------------------------------------------------------------


class TypeId(Enum):
    STRING = 1
    STRUCT = 2
    INT32 = 3
    INT64 = 4


class DataType:
    def __init__(self, type_id: TypeId) -> None:
        self.type_id = type_id

    def id(self) -> TypeId:
        return self.type_id


class gpumemoryview:
    """Memory as it lies."""

    def __init__(self, array: ndarray) -> None:
        if not isinstance(array, ndarray):
            raise ValueError(
                "gpumemoryview must be constructed from an object supporting the CUDA array interface"
            )
        self._there = np.ascontiguousarray(array._there).view(np.uint8)


class Column(_Strict):
    def __init__(
        self,
        type_: DataType,
        size: int,
        data: Any,
        mask: Any,
        null_count: int,
        offset: int,
        children: list[Column],
    ) -> None:
        self._type, self._size, self._data, self._offset = type_, size, data, offset
        self._children = children

    @classmethod
    def from_cuda_array_interface(cls, array: ndarray) -> Column:
        kind = {np.dtype(np.int32): TypeId.INT32, np.dtype(np.int64): TypeId.INT64}[array.dtype]
        return cls(DataType(kind), len(array), gpumemoryview(array), None, 0, 0, [])

    def type(self) -> DataType:
        return self._type

    def data(self) -> Any:
        return (
            None if self._data is None else ndarray(self._data._there)
        )  # CuPy takes its memory by the interface

    def child(self, place: int) -> Column:
        return self._children[place]

    def offset(self) -> int:
        return self._offset

    def _texts(self) -> list[str]:
        if self._children[0].type().id() is not TypeId.INT32:
            raise TypeError("places of texts are int32, but for columns that are larger than that")
        borders = self._children[0]._data._there.view(np.int32)
        characters = self._data._there.tobytes()
        return [characters[begin:end].decode() for begin, end in pairwise(borders.tolist())]


class _Table:
    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = columns


class _Options:
    """What `JsonReaderOptions.builder` is told; only as our code tells it."""

    def __init__(self, source: SourceInfo) -> None:
        self.source = source
        self.told: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in (
            "compression",
            "lines",
            "dtypes",
            "recovery_mode",
            "mixed_types_as_string",
            "prune_columns",
        ):
            raise AttributeError(f"the fake's JsonReaderOptionsBuilder has no {name}")

        def tell(value: Any) -> _Options:
            self.told[name] = value
            return self

        return tell

    def build(self) -> _Options:
        return self


class SourceInfo:
    def __init__(self, sources: list[gpumemoryview]) -> None:
        [self.memory] = sources


def _read_json(options: _Options) -> _Table:
    told = options.told
    if not (told["lines"] and told["prune_columns"] and told["mixed_types_as_string"]):
        raise NotImplementedError("lines, pruned, with mixed types as texts")
    if told["recovery_mode"] is not JSONRecoveryMode.RECOVER_WITH_NULL:
        raise NotImplementedError("only with recovery")
    decoder = msgspec.json.Decoder(_record(told["dtypes"]))
    lines = options.source.memory._there.tobytes().split(b"\n")
    return _Table(_inside([_decoded(decoder, line) for line in lines if line], told["dtypes"]))


def _record(schema: list[Any]) -> Any:
    """A type for msgspec that takes what a line of the filter's may hold, and nothing else."""
    fields = [(name, (_record(inside) if inside else str | bool) | None, None) for name, _, inside in schema]
    return msgspec.defstruct("Line", fields)


def _decoded(decoder: Any, line: bytes) -> Any:
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        raise NotImplementedError(f"libcudf is not sure of {line!r}: {error}") from None
    except msgspec.DecodeError:
        return None


def _inside(rows: list[Any], schema: list[Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, kind, inside in schema:
        values = [getattr(row, name, None) for row in rows]
        if kind.id() is TypeId.STRUCT:
            out[name] = _Struct(_inside(values, inside))
        else:
            texts = [value if not isinstance(value, bool) else str(value).lower() for value in values]
            out[name] = Series._of(pd.Series(texts, dtype="str"))
    return out


class JSONRecoveryMode(Enum):
    FAIL = 0
    RECOVER_WITH_NULL = 1


class CompressionType(Enum):
    NONE = 0


class io:
    SourceInfo = SourceInfo

    class types:
        JSONRecoveryMode = JSONRecoveryMode
        CompressionType = CompressionType

    class json:
        read_json = staticmethod(_read_json)

        class JsonReaderOptions:
            builder = staticmethod(_Options)
