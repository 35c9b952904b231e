"""What is written as columns is read as the records would be, and never believed where it is something else."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fingerprint.compute import frames
from fingerprint.compute.column_table import ColumnTable
from fingerprint.core.ports.message_stream import Message
from fingerprint.core.settings import Entities, Settings
from fingerprint.sources import columnar
from fingerprint.sources import entities as entities_module
from fingerprint.sources.cloudtrail.samples import sample_lines
from fingerprint.sources.columnar import (
    EventsTable,
    events_table,
    is_columnar,
    merge_tables,
    read_tables,
    write_table,
)
from fingerprint.sources.decode import DecodedMessages, decode_messages
from fingerprint.sources.entities import ENTITY_COLUMNS, add_entity_columns
from tests.support import record_corpus

LINES = [*sample_lines("real/invictus_stratus")][:300] + record_corpus.crooked()[:200]


def decoded(*values: bytes, settings: Settings | None = None, **options: Any) -> list[DecodedMessages]:
    messages = [Message("raw", 0, offset, value=value) for offset, value in enumerate(values)]
    return list(decode_messages(messages, settings or Settings(), **options))


@pytest.fixture(scope="module")
def piece() -> DecodedMessages:
    (one,) = decoded(*LINES)
    return one


@pytest.fixture(scope="module")
def table(piece: DecodedMessages) -> EventsTable:
    source = np.arange(len(piece.events)) % 2
    return events_table(piece.events, piece.lines, ["raw/0", "raw/1"], source, piece.times_ms)


def written(table: EventsTable, *rows: int, entities: Entities | None = None) -> bytes:
    return write_table(table, np.array(rows or np.arange(len(table))), entities or Entities())


def names(pieces: list[DecodedMessages]) -> list[str]:
    return [name for piece in pieces for name in piece.events["event_id"]]


def test_identities_are_the_same_where_their_numbers_do_not_fit_one(
    piece: DecodedMessages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entities_module, "_MOST_CODES", 1)
    events = piece.events.drop(columns=list(ENTITY_COLUMNS))
    pd.testing.assert_frame_equal(add_entity_columns(events, Entities()), piece.events)


def test_columns_are_what_the_records_say(piece: DecodedMessages, table: EventsTable) -> None:
    assert len(piece.events) > 400
    (read,) = read_tables([written(table)], Entities())
    assert read
    assert read.records == [piece.lines[row] for row in piece.row]
    events, origins = merge_tables([read.columns])
    expected = piece.events.assign(row=np.arange(len(piece.events)))
    pd.testing.assert_frame_equal(events[expected.columns], expected)
    table_of_columns, _ = merge_tables([read.columns], column_table=True)
    assert isinstance(table_of_columns, ColumnTable)
    expected = frames.with_object_texts(expected)
    pd.testing.assert_frame_equal(table_of_columns.to_pandas()[expected.columns], expected)
    assert [origins.sources[code] for code in origins.source[:3]] == ["raw/0", "raw/1", "raw/0"]
    assert origins.watermarks.tolist() == piece.times_ms.tolist()


def test_a_dictionary_has_the_texts_of_its_own_rows_and_no_byte_more(table: EventsTable) -> None:
    rows = np.arange(300, 340)[::-1]
    with pa.ipc.open_stream(written(table, *rows)) as sent:
        batch = sent.read_next_batch()
    for column in (each for each in batch.columns if pa.types.is_dictionary(each.type)):
        texts = column.dictionary
        assert texts.to_pylist() == column.drop_null().unique().dictionary_decode().to_pylist()
        assert sum(each.size for each in texts.buffers() if each) == 8 * len(texts) + 8 + sum(
            len(each.encode()) for each in texts.to_pylist()
        )


def test_records_and_columns_may_be_mixed_in_any_order(piece: DecodedMessages, table: EventsTable) -> None:
    lines = [piece.lines[row] for row in piece.row]
    values = [lines[0], written(table, 1, 2), written(table, 3), lines[4], lines[5], written(table, 6)]
    pieces = decoded(*values)
    assert names(pieces) == piece.events["event_id"].tolist()[:7]
    assert [(each.begin, each.end) for each in pieces] == [(0, 1), (1, 3), (3, 5), (5, 6)]
    assert [place for each in pieces for place in each.source.tolist()] == [0, 1, 1, 2, 3, 4, 5]
    assert [bytes(each.lines[row]) for each in pieces for row in each.row] == lines[:7]


def test_much_comes_in_several_pieces(table: EventsTable, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [written(table, *range(start, start + 50)) for start in range(0, 200, 50)]
    whole = decoded(*values)
    monkeypatch.setattr("fingerprint.compute.backend.Backend.batch_bytes", property(lambda _: 1))
    assert [(each.begin, each.end) for each in decoded(*values)] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert names(decoded(*values)) == names(whole)


@pytest.mark.parametrize("change", ["entities", "version"])
def test_columns_that_others_made_are_made_again(
    piece: DecodedMessages, table: EventsTable, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entities = Entities(granularity="principal" if change == "entities" else "principal_service")
    with monkeypatch.context() as then:
        if change == "version":
            then.setattr(columnar, "_product_version", lambda: "0.0.9")
        value = written(table, *range(100), entities=entities)
    (again,) = decoded(value)
    assert again.origins is None
    assert again.events["entity"].tolist() == piece.events["entity"].tolist()[:100]
    assert again.source.tolist() == [0] * 100


def replaced(name: str, values: Callable[[pa.Array], pa.Array]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return a change of one column, which keeps its name and the schema's metadata."""

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        place = batch.schema.get_field_index(name)
        arrays = [values(array) if here == place else array for here, array in enumerate(batch.columns)]
        fields = [pa.field(field.name, array.type) for field, array in zip(batch.schema, arrays, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, batch.schema.metadata))

    return change


def _nulls(array: pa.Array) -> pa.Array:
    return pa.nulls(len(array), array.type)


LIES = {
    "no principal": replaced("principal", _nulls),
    "a dictionary without a text": replaced(
        "principal",
        lambda array: pa.DictionaryArray.from_arrays(
            pa.array([0] * len(array), pa.int32()), pa.array([None], pa.large_string())
        ),
    ),
    "no time": replaced("event_time", _nulls),
    "a time before 1970": replaced(
        "event_time", lambda array: pa.array([-1] * len(array), pa.int64()).view(array.type)
    ),
    "a time after all": replaced(
        "event_time", lambda array: pa.array([2**62] * len(array), pa.int64()).view(array.type)
    ),
    "a watermark below zero": replaced("watermark", lambda array: pa.array([-1] * len(array))),
    "numbers for texts": replaced("service", lambda array: pa.array(range(len(array)))),
    "a column less": lambda batch: batch.drop_columns(["action"]),
    "a column more": lambda batch: batch.append_column("extra", batch["watermark"]),
}


def stream(batch: pa.RecordBatch) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as sent:
        sent.write_batch(batch)
    return out.getvalue().to_pybytes()


@pytest.mark.parametrize("lie", LIES)
def test_a_table_that_is_not_ours_is_read_from_its_records(table: EventsTable, lie: str) -> None:
    with pa.ipc.open_stream(written(table, *range(20))) as sent:
        batch = sent.read_next_batch()
    (again,) = decoded(stream(LIES[lie](batch)))
    assert again.origins is None
    assert names([again]) == batch["event_id"].to_pylist()


def test_a_table_without_records_or_with_too_many_is_a_dead_letter(table: EventsTable) -> None:
    with pa.ipc.open_stream(written(table, *range(20))) as sent:
        batch = sent.read_next_batch()
    most = pa.Table.from_batches([batch] * 51).combine_chunks().to_batches()[0]
    assert len(most) > columnar.MAX_EVENTS
    for value in (stream(batch.drop_columns(["record"])), stream(most), b"\xff\xff\xff\xff", b"\xff" * 99):
        assert is_columnar(value)
        (refused,) = decoded(value)
        assert [each.reason for each in refused.rejects] == ["not a table of events and records"]
        assert not len(refused.events)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_table_that_would_expand_is_a_dead_letter_and_takes_no_memory(
    table: EventsTable, codec: str
) -> None:
    with pa.ipc.open_stream(written(table, *range(20))) as sent:
        batch = sent.read_next_batch()
    name, size = batch.schema.get_field_index("service"), 100 << 20
    long = pa.DictionaryArray.from_arrays(
        pa.array([0] * 20, pa.int32()), pa.array(["x" * size], pa.large_string())
    )
    for column in ("service", "record"):
        arrays = list(batch.columns)
        arrays[name] = long if column == "service" else arrays[name]
        swollen = pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(
            out, swollen.schema, options=pa.ipc.IpcWriteOptions(compression=codec)
        ) as stream_:
            stream_.write_batch(swollen)
        value = out.getvalue().to_pybytes()
        assert len(value) < 4 << 20
        before = pa.default_memory_pool().max_memory()
        (refused,) = decoded(value)
        assert [each.reason for each in refused.rejects] == ["not a table of events and records"]
        assert pa.default_memory_pool().max_memory() - before < size / 10


def test_damaged_messages_never_raise_and_cost_no_other(piece: DecodedMessages, table: EventsTable) -> None:
    """Each of them is sent between two records; these are told apart from what is left of the damaged ones, which lacks them."""
    draw, good = random.Random(7), written(table, *range(1, 31))
    record, name = piece.lines[piece.row[0]], names([piece])[0]
    for _ in range(5):
        damaged = []
        for _ in range(10):
            bad = bytearray(good)
            for _ in range(draw.choice([1, 4, 64])):
                bad[draw.randrange(4, len(bad))] = draw.randrange(256)
            damaged.append(bytes(bad[: draw.choice([len(bad), draw.randrange(4, len(bad))])]))
        pieces = decoded(record, *(value for bad in damaged for value in (bad, record)))
        assert names(pieces).count(name) == len(damaged) + 1
        assert [each.events["event_id"].iloc[0] for each in (pieces[0], pieces[-1])] == [name] * 2
        assert pieces[-1].end == 2 * len(damaged) + 1
