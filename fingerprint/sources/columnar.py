"""Columnar messages: many events that `ingest` has flattened, in one Arrow table, so that readers need not parse them again.

Example:
    >>> record = b'{"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:18Z", "userIdentity": {"type": "Root"}}'
    >>> events = add_entity_columns(flatten(SOURCE.split_lines([record])).events, Entities())
    >>> table = events_table(events, [record], ["raw/3"], np.zeros(1, np.int64), np.array([1688989338000]))
    >>> value = write_table(table, np.arange(1), Entities())
    >>> is_columnar(value), read_tables([value], Entities())[0].records
    (True, [b'{"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:18Z", "userIdentity": {"type": "Root"}}'])

A message is an Arrow IPC stream of one batch. It has the columns of `add_entity_columns(flatten(...).events)`, with texts as
dictionaries. For each event it also has the original `record`, its `source` (`raw/3`), and the `watermark` of that source up to
the record, in ms since 1970.

The columns only save time. The schema's metadata has the version of the product and the settings of entities that made them. If
these are not the reader's own, or the table is not of the form that `write_table` makes, the records are read again. So a new
version can read the messages of an old one.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.compute.arrays import Longs
from fingerprint.compute.backend import HOST_BACKEND, Backend
from fingerprint.compute.column_table import ColumnTable
from fingerprint.compute.frames import Frame
from fingerprint.core.settings import Entities
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import RecordBatch
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from fingerprint.sources.joined_lines import lines_array, starting_with

MAX_EVENTS = 1_000  # of one message
_STREAM_START = b"\xff\xff\xff\xff"  # first bytes of an Arrow IPC stream, and of no text and no archive
_LATEST_MS = 1 << 43  # in the year 2248: intervals after it would not fit their integers
_MADE_BY = b"fingerprint.made_by"
_DISTRIBUTION = "cloudtrail-fingerprint"


class EventOrigins(NamedTuple):
    """The origins of n events of columnar messages: `source` (n,) are places in `sources`, `watermarks` (n,) are in ms."""

    sources: list[str]
    source: Longs
    watermarks: Longs

    def take(self, rows: NDArray[np.bool_]) -> EventOrigins:
        """Return the origins of some events, by a mask (n,)."""
        return self._replace(source=self.source[rows], watermarks=self.watermarks[rows])


class ColumnarTable(NamedTuple):
    """One message as it was read: always `records`, and `columns` if they can be trusted."""

    records: list[bytes]
    columns: pa.Table | None


@dataclass(frozen=True, slots=True)
class EventsTable:
    """The n events of which messages are made, each of their C columns of texts encoded once.

    `records` (n,) are those behind the events, `plain` (n rows) has the other columns that messages do not encode. `codes`
    (C, n) are the places of the texts in `texts`, -1 for a missing one, in the order of `names` (C,). `texts` has those of one
    column after those of another, so that a place also says of which column it is: `first` (C,) are the places at which the
    columns begin.
    """

    records: list[bytes]
    plain: pa.RecordBatch
    names: list[str]
    codes: NDArray[np.int32]
    texts: pa.LargeStringArray
    first: Longs

    def __len__(self) -> int:
        return len(self.records)


def is_columnar(value: bytes | None) -> bool:
    """Return whether a message is columnar, from its first bytes."""
    return bool(value) and value[:4] == _STREAM_START  # type: ignore[index]


def columnar_mask(values: Sequence[bytes]) -> NDArray[np.bool_]:
    """Return a mask (N,) of the messages that are columnar."""
    return starting_with(_STREAM_START, values)


def events_table(
    events: pd.DataFrame, lines: Sequence[bytes], sources: Sequence[str], source: Longs, watermarks: Longs
) -> EventsTable:
    """Return n events, with entities, as the table from which `write_table` makes messages.

    `lines` are the records, indexed by the column `row`; `source` (n,) are places in `sources`; `watermarks` (n,) are in ms.
    """
    plain, encoded = {}, {}
    for field in _text_schema():
        values = pa.array(events[field.name].array, field.type)
        values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        if pa.types.is_dictionary(_dictionary_of(field)):
            encoded[field.name] = values.dictionary_encode()
        else:
            plain[field.name] = values
    encoded["source"] = pa.DictionaryArray.from_arrays(
        source.astype(np.int32), pa.array(sources, pa.large_string())
    )
    plain["watermark"] = pa.array(watermarks)
    sizes = np.array([len(each.dictionary) for each in encoded.values()])
    first = np.cumsum(sizes) - sizes
    codes = [_places(each, start) for each, start in zip(encoded.values(), first.tolist(), strict=True)]
    texts = pa.concat_arrays([each.dictionary for each in encoded.values()])
    records = [lines[row] for row in events["row"].tolist()]
    return EventsTable(
        records, pa.RecordBatch.from_pydict(plain), list(encoded), np.stack(codes), texts, first
    )


def write_table(table: EventsTable, rows: Longs, entities: Entities) -> bytes:
    """Return some rows of an `events_table` as a message; `entities` are the settings that named its entities."""
    schema, plain, out = _message_schema(entities), table.plain.take(rows), pa.BufferOutputStream()
    columns = dict(zip(plain.schema.names, plain.columns, strict=True)) | _dictionaries(table, rows)
    columns["record"] = lines_array([table.records[row] for row in rows.tolist()])
    with pa.ipc.new_stream(out, schema) as stream:
        stream.write_batch(
            pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
        )
    written: bytes = out.getvalue().to_pybytes()
    return written


def read_tables(values: Sequence[bytes], entities: Entities) -> list[ColumnarTable | None]:
    """Return the table of each message; None for a message that is not columnar or has more than MAX_EVENTS rows."""
    return [_read_table(value, entities) for value in values]


def merge_tables(
    tables: Sequence[pa.Table], backend: Backend = HOST_BACKEND, column_table: bool = False
) -> tuple[Frame, EventOrigins]:
    """Return the events of several tables as one frame, numbered by `row`, and their origins.

    Texts are `str`, as in `flatten`. With `column_table`, on a host, the frame is a ColumnTable.
    """
    small = [table.drop_columns("record") for table in tables]  # the records have been taken out
    table = pa.concat_tables(small).unify_dictionaries().combine_chunks()
    origins = EventOrigins(
        table["source"].chunk(0).dictionary.to_pylist(),
        table["source"].chunk(0).indices.to_numpy().astype(np.int64),
        table["watermark"].to_numpy(),
    )
    row = pa.array(np.arange(len(table)))
    columns = table.append_column("row", row).select([*map(str, _no_events().columns)])
    if backend.dataframe_library != "pandas":
        return frames.to_device(frames.from_arrow(columns), backend.dataframe_library), origins
    return (ColumnTable.from_arrow(columns) if column_table else frames.from_arrow(columns)), origins


def _read_table(value: bytes, entities: Entities) -> ColumnarTable | None:
    try:
        if any(_is_compressed(message.metadata.to_pybytes()) for message in _ipc_messages(value)):
            return None
        with pa.ipc.open_stream(value) as stream:
            batch = stream.read_next_batch()
        batch.validate(full=True)
        if batch.num_rows > MAX_EVENTS or batch.schema.field("record").type != pa.large_binary():
            return None
        records = [each or b"" for each in batch["record"].to_pylist()]
    except (pa.ArrowException, KeyError, StopIteration, OSError, struct.error, IndexError):
        return None
    return ColumnarTable(records, pa.Table.from_batches([batch]) if _is_believed(batch, entities) else None)


def _ipc_messages(value: bytes) -> Iterator[pa.ipc.Message]:
    """Yield the messages of an Arrow stream, unread."""
    reader = pa.ipc.MessageReader.open_stream(value)
    with suppress(StopIteration):
        while True:
            yield reader.read_next_message()


def _is_compressed(metadata: bytes) -> bool:
    """Return whether the buffers of a message are compressed (Arrow's Message.fbs): a few bytes could then expand to any size.

    pyarrow does not report it, and expands buffers before it can be asked. Raise struct.error if it is no such message.
    """
    (message,) = struct.unpack_from("<I", metadata)
    header = _flatbuffer_field(metadata, message, 2)
    kind = _flatbuffer_field(metadata, message, 1)
    table = header and header + struct.unpack_from("<I", metadata, header)[0]
    if kind and metadata[kind] == _DICTIONARY_BATCH and table:
        data = _flatbuffer_field(metadata, table, 1)
        table = data and data + struct.unpack_from("<I", metadata, data)[0]
    elif not kind or metadata[kind] != _RECORD_BATCH:
        return False
    return bool(table and _flatbuffer_field(metadata, table, 3))


_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3  # MessageHeader in Message.fbs


def _flatbuffer_field(data: bytes, table: int, number: int) -> int:
    """Return the position of a field of a flatbuffer's table, 0 if it is absent."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    place = 4 + 2 * number
    if vtable < 0 or place >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    (offset,) = struct.unpack_from("<H", data, vtable + place)
    return table + offset if offset else 0


def _is_believed(batch: pa.RecordBatch, entities: Entities) -> bool:
    """Return whether the columns have the form that `write_table` makes."""
    schema = _message_schema(entities)
    if not len(batch) or not batch.schema.equals(schema, check_metadata=True):
        return False
    if any(_missing(batch[field.name]) for field in schema if not field.nullable):
        return False
    at, marks = batch["event_time"].view(pa.int64()).to_numpy(), batch["watermark"].to_numpy()
    return bool(at.min() >= 0 and at.max() < _LATEST_MS * 1000 and marks.min() >= 0)


def _missing(column: pa.Array) -> bool:
    """Return whether a column or its dictionary has a missing value."""
    return bool(column.null_count or (pa.types.is_dictionary(column.type) and column.dictionary.null_count))


def _places(column: pa.DictionaryArray, first: int) -> NDArray[np.int32]:
    """Return the numbers of a column's texts (n,), counted from `first`; -1 for a missing text."""
    codes: NDArray[np.int32] = pc.fill_null(
        pc.add(column.indices, pa.scalar(first, pa.int32())), -1
    ).to_numpy()
    return codes


def _dictionaries(table: EventsTable, rows: Longs) -> dict[str, pa.DictionaryArray]:
    """Return the text columns of m rows, each with a dictionary of the texts that occur, in the order of first occurrence.

    All columns are numbered at once, because their texts have different places, in the order of the columns.
    """
    codes = table.codes.take(rows, axis=1)  # (C, m)
    missing = codes < 0
    places, numbers = _number_by_occurrence(codes.ravel(), len(table.texts))
    begin = np.searchsorted(_columns_of(places, table.first), np.arange(len(table.names) + 1))  # (C + 1,)
    local = numbers.reshape(codes.shape) - begin[:-1, None].astype(np.int32)
    local[missing] = 0  # as Arrow's own encoding has it
    present = np.packbits(~missing, axis=1, bitorder="little")
    gaps = missing.sum(axis=1).tolist()
    texts = _split_texts(table.texts.take(pa.array(places)), begin)
    kind = pa.dictionary(pa.int32(), pa.large_string())
    return {
        name: pa.DictionaryArray.from_buffers(
            kind,
            len(rows),
            [pa.py_buffer(present[each]) if gaps[each] else None, pa.py_buffer(local[each])],
            texts[each],
            gaps[each],
        )
        for each, name in enumerate(table.names)
    }


def _number_by_occurrence(codes: NDArray[np.int32], count: int) -> tuple[Longs, NDArray[np.int32]]:
    """Return the codes that occur, of `count`, in the order of first occurrence, and the place of each code (n,) among them.

    The place of a code of -1 is arbitrary.
    """
    backwards = codes[::-1].astype(np.intp)
    first = np.full(count + 1, len(codes), np.int32)  # the last is of -1
    # For equal codes, the place that is written last stays.
    first[backwards] = np.arange(len(codes) - 1, -1, -1, dtype=np.int32)
    occurring = np.flatnonzero(first[:-1] < len(codes))
    occurring = occurring[np.argsort(first[occurring], kind="stable")]
    numbers = np.zeros(count + 1, np.int32)
    numbers[occurring] = np.arange(len(occurring), dtype=np.int32)
    return occurring, numbers.take(backwards)[::-1]


def _split_texts(texts: pa.LargeStringArray, begin: Longs) -> list[pa.LargeStringArray]:
    """Return texts (k,) in C parts that begin at `begin` (C + 1,).

    Each part has only its own bytes: a slice of Arrow would be sent with some bytes of its neighbours, an empty one with all.
    """
    _, offsets, data = texts.buffers()
    borders = np.frombuffer(offsets, np.int64)[: len(texts) + 1]
    data = data or pa.py_buffer(b"")
    return [
        pa.LargeStringArray.from_buffers(
            last - first,
            pa.py_buffer(borders[first : last + 1] - borders[first]),
            data.slice(borders[first], borders[last] - borders[first]),
        )
        for first, last in pairwise(begin.tolist())
    ]


def _columns_of(places: Longs, first: Longs) -> Longs:
    """Return the column of each place in `EventsTable.texts` (k,); a column without texts begins where the next one does."""
    columns: Longs = np.searchsorted(first, places, side="right") - 1
    return columns


@cache
def _no_events() -> pd.DataFrame:
    return add_entity_columns(flatten(RecordBatch([], [], [])).events, Entities())


@cache
def _text_schema() -> pa.Schema:
    """Return the columns of flattened events with entities, without `row`."""
    arrow = {
        "str": pa.large_string(),
        "boolean": pa.bool_(),
        "datetime64[us, UTC]": pa.timestamp("us", "UTC"),
    }
    return pa.schema(
        [(name, arrow[str(kind)]) for name, kind in _no_events().dtypes.items() if name != "row"]
    )


@cache
def _schema_made_by(made_by: bytes) -> pa.Schema:
    fields = [
        pa.field(each.name, _dictionary_of(each), each.name not in _ALWAYS_THERE) for each in _text_schema()
    ]
    fields += [
        pa.field("record", pa.large_binary(), False),
        pa.field("source", pa.dictionary(pa.int32(), pa.large_string()), False),
        pa.field("watermark", pa.int64(), False),
    ]
    return pa.schema(fields, {_MADE_BY: made_by})


_ALWAYS_THERE = ("event_id", "event_time", "service", "action", "principal", "kind", "call_path", "entity")


def _dictionary_of(field: pa.Field) -> pa.DataType:
    """Return the type of a column in messages: a dictionary for texts, except for ids, which differ from event to event."""
    is_text = field.type == pa.large_string() and field.name != "event_id"
    return pa.dictionary(pa.int32(), pa.large_string()) if is_text else field.type


@cache
def _product_version() -> str:
    return version(_DISTRIBUTION)


def _message_schema(entities: Entities) -> pa.Schema:
    """Return the schema of messages whose entities these settings named."""
    naming = json.dumps([entities.granularity, *entities.person_role_patterns]).encode()
    made_by = f"{SOURCE.NAME} {_product_version()} {hashlib.sha256(naming).hexdigest()[:16]}"
    return _schema_made_by(made_by.encode())
