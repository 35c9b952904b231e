"""Decoding: messages to events. Unwrap a batch of messages, read the records, and reject those that cannot be read.

Example:
    >>> record = b'{"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:18Z", "userIdentity": {"type": "Root"}}'
    >>> [decoded] = decode_messages([Message("raw", 3, 17, value=record)], Settings())
    >>> decoded.events["principal"].tolist(), decoded.source.tolist()
    (['unknown:root'], [0])
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import arrays, frames
from fingerprint.compute.backend import HOST_BACKEND, Backend
from fingerprint.core.alert import Reject
from fingerprint.core.ports.message_stream import Message
from fingerprint.core.settings import Settings
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import FlattenedRecords, Origin, RecordBatch, merge_batches
from fingerprint.sources.columnar import (
    ColumnarTable,
    EventOrigins,
    columnar_mask,
    is_columnar,
    merge_tables,
    read_tables,
)
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from fingerprint.sources.joined_lines import starting_with
from fingerprint.sources.limits import ReadLimits
from fingerprint.sources.protocol import LogSource

_ROW_BYTES = 256  # least weight of a record in a slice; most records have four times as many bytes

MessageParts = tuple[int, int, Iterator[RecordBatch]]  # first message, the one after the last, their records


class DecodedMessages(NamedTuple):
    """The events and rejects of the input messages `begin` to `end` - 1.

    `events` (n rows) have entities and are on the device of the backend's tables. All else is on the host: for each event the
    number of its message (`source` (n,)), its index in `lines`, the original records (`row` (n,)), and its time in ms since 1970
    (`times_ms` (n,)). The position of a reject begins with the number of its message.

    A large message comes in several batches, which have nothing else: all but the last are partial, and no offset may be
    committed past them.

    `origins` has the sources of events of columnar messages; the headers of other messages have theirs.
    """

    begin: int
    end: int
    lines: list[bytes]
    events: pd.DataFrame
    source: NDArray[np.int64]
    rejects: list[Reject]
    skipped: int
    row: NDArray[np.int64]
    times_ms: NDArray[np.int64]
    is_partial: bool = False
    origins: EventOrigins | None = None

    @property
    def complete_until(self) -> int:
        """The first message that is not completely in this batch and those before."""
        return self.end - self.is_partial

    def without_events(self, which: NDArray[np.bool_]) -> DecodedMessages:
        """Return the messages without the events that a mask (n,) marks."""
        return self._replace(
            events=frames.select_rows(self.events, ~which),
            source=self.source[~which],
            row=self.row[~which],
            times_ms=self.times_ms[~which],
            origins=self.origins.take(~which) if self.origins else None,
        )


class _RecordSlice(NamedTuple):
    """The records of the messages `begin` to `end` - 1, or of a part of one message."""

    begin: int
    end: int
    records: RecordBatch
    is_partial: bool = False


def decode_messages(
    messages: Sequence[Message],
    settings: Settings,
    backend: Backend = HOST_BACKEND,
    log_source: LogSource = SOURCE,
    column_table: bool = False,
) -> Iterator[DecodedMessages]:
    """Yield batches that together have all the messages, in order. No bytes of a message make it raise an error.

    A message that does not fit into memory becomes a reject. With `column_table`, the events of columnar messages are a
    ColumnTable, which costs less than a pandas table.
    """
    decoder = _Decoder([message.value or b"" for message in messages], settings, backend, log_source)
    columnar = columnar_mask(decoder.values)
    for begin, end in _runs(columnar):
        if columnar[begin]:
            yield from decoder.decode_columnar(begin, end, column_table)
        else:
            for cut in decoder.slices(decoder.split(begin, end)):
                yield from decoder.decode(cut)


def row_indices(events: pd.DataFrame) -> NDArray[np.int64]:
    """Return the column `row`, on the host, (n,)."""
    return frames.to_pandas(events[["row"]])["row"].to_numpy(np.int64)


def event_times_ms(events: pd.DataFrame) -> NDArray[np.int64]:
    """Return event times as ms since 1970, on the host, (n,)."""
    at: NDArray[np.int64] = (
        arrays.to_host(frames.epoch_microseconds(frames.column_of(events, "event_time"))) // 1000
    )
    return at


def message_number(position: str) -> int:
    """Return the number of the message of a position: 17 for `17/2/0`, a record in an envelope in message 17."""
    return int(position.partition("/")[0])


@dataclass(frozen=True, slots=True)
class _Decoder:
    values: list[bytes]  # of the messages, empty where one has none
    settings: Settings
    backend: Backend
    log_source: LogSource

    @property
    def limits(self) -> ReadLimits:
        return ReadLimits()

    def decode(self, cut: _RecordSlice) -> Iterator[DecodedMessages]:
        """Yield the events of a slice, or of smaller slices if it does not fit into memory or must be split with care."""
        try:
            flat = self._flatten(cut.records)
        except MemoryError:
            smaller = self._reject_slices(cut) if cut.end - cut.begin == 1 else self._one_by_one(cut)
        else:
            careful = self._misread_messages(flat.rejects)
            if not careful:
                yield self._with_entities(cut, flat)
                return
            smaller = self.slices(self.split(cut.begin, cut.end, careful))
        for each in smaller:
            yield self._with_entities(each, self._flatten_or_reject(each))

    def decode_columnar(self, begin: int, end: int, column_table: bool) -> Iterator[DecodedMessages]:
        """Yield the events of columnar messages; if the columns cannot be trusted, they are read from the records."""
        values = self.values[begin:end]
        tables = read_tables(values, self.settings.entities)
        believed = np.array([bool(table and table.columns is not None) for table in tables], bool)
        for first, last in _runs(believed):
            if not believed[first]:
                for cut in self.slices(self.split(begin + first, begin + last)):
                    yield from self.decode(cut)
                continue
            for start, stop in _cut_by_size(
                [len(each) for each in values[first:last]], self.backend.batch_bytes
            ):
                kept = [table for table in tables[first + start : first + stop] if table]
                yield self._merge_columnar(begin + first + start, kept, column_table)

    def _merge_columnar(self, begin: int, tables: list[ColumnarTable], column_table: bool) -> DecodedMessages:
        events, origins = merge_tables([table.columns for table in tables], self.backend, column_table)
        counts = [len(table.records) for table in tables]
        return DecodedMessages(
            begin,
            begin + len(tables),
            [*chain.from_iterable(table.records for table in tables)],
            events,
            np.repeat(np.arange(begin, begin + len(tables)), counts),
            [],
            0,
            np.arange(sum(counts)),
            event_times_ms(events),
            origins=origins,
        )

    def split(self, begin: int, end: int, careful: Collection[int] = ()) -> Iterator[MessageParts]:
        """Yield (first message, last message + 1, parts of their records). Positions begin with the number of the message.

        Messages that begin like a record are read together, except `careful` ones, which may have several documents.
        """
        values = self.values[begin:end]
        usual = starting_with(self.log_source.RECORD_PREFIX, values)
        usual[[place - begin for place in careful]] = False
        for first, last in _runs(usual):
            if usual[first]:
                records = self.log_source.split_lines(values[first:last], "", begin + first, self.limits)
                yield begin + first, begin + last, iter([records])
            else:
                for place in range(first, last):
                    yield (
                        begin + place,
                        begin + place + 1,
                        self._split_alone(values[place], str(begin + place)),
                    )

    def _split_alone(self, value: bytes, position: str) -> Iterator[RecordBatch]:
        """Return the records of one message, in parts; a columnar message is treated as a sequence of its records."""
        if is_columnar(value):
            (table,) = read_tables([value], self.settings.entities)
            if table is None:
                return iter(
                    [RecordBatch([], [], [Reject("", position, "not a table of events and records")])]
                )
            value = b"\n".join(table.records)
        return self.log_source.split_message_in_parts(value, "", position, self.limits)

    def slices(self, split: Iterator[MessageParts]) -> Iterator[_RecordSlice]:
        """Yield the records of messages in slices of about the backend's `batch_bytes`, so that gzip costs no more memory.

        A message in several parts has slices of its own.
        """
        most = self.backend.batch_bytes
        waiting: list[RecordBatch] = []
        begin = end = size = 0
        for first, end, parts in split:
            part, following = next(parts), next(parts, None)
            begin = begin if waiting else first
            if following is None:
                waiting.append(part)
                size += _weight(part)
            if waiting and (size > most or following is not None):
                yield _RecordSlice(begin, end if following is None else first, merge_batches(waiting))
                waiting, size = [], 0
            if following is not None:
                yield from _partial_slices(end - 1, chain([part, following], parts), most)
        if waiting:
            yield _RecordSlice(begin, end, merge_batches(waiting))

    def _flatten(self, records: RecordBatch) -> FlattenedRecords:
        return flatten(records, self.backend.dataframe_library, self.log_source)

    def _flatten_or_reject(self, cut: _RecordSlice) -> FlattenedRecords:
        try:
            return self._flatten(cut.records)
        except MemoryError:
            (refused,) = self._reject_slices(cut)
            return self._flatten(refused.records)

    def _with_entities(self, cut: _RecordSlice, flat: FlattenedRecords) -> DecodedMessages:
        events = add_entity_columns(flat.events, self.settings.entities, self.log_source)
        row = row_indices(events)
        return DecodedMessages(
            cut.begin,
            cut.end,
            cut.records.lines,
            events,
            _message_numbers(cut.records.origins)[row],
            flat.rejects,
            flat.skipped,
            row,
            event_times_ms(events),
            cut.is_partial,
        )

    def _reject_slices(self, cut: _RecordSlice) -> list[_RecordSlice]:
        """Return the slice without its records and with a reject for each of its messages: they do not fit into memory."""
        places = sorted(set(_message_numbers(cut.records.origins).tolist()))
        rejects = [Reject("", str(place), "does not fit into memory") for place in places]
        rest = RecordBatch([], [], cut.records.rejects + rejects, cut.records.skipped)
        return [cut._replace(records=rest)]

    def _one_by_one(self, cut: _RecordSlice) -> Iterator[_RecordSlice]:
        """Yield the messages of a slice, each in slices of its own."""
        for place in range(cut.begin, cut.end):
            yield from self.slices(self.split(place, place + 1))

    def _misread_messages(self, rejects: list[Reject]) -> set[int]:
        """Return the messages that begin like a record and are none: a second, careful reading may find several documents."""
        prefix = self.log_source.RECORD_PREFIX
        return {
            int(reject.position)
            for reject in rejects
            if reject.position.isdigit() and self.values[int(reject.position)].startswith(prefix)
        }


def _partial_slices(place: int, parts: Iterator[RecordBatch], max_bytes: int) -> Iterator[_RecordSlice]:
    """Yield the slices of one message, each of about `max_bytes` bytes."""
    waiting: list[RecordBatch] = []
    for part, following in pairwise(chain(parts, [None])):
        waiting += [] if part is None else [part]
        if following is None or sum(map(_weight, waiting)) > max_bytes:
            yield _RecordSlice(place, place + 1, merge_batches(waiting), is_partial=following is not None)
            waiting = []


def _runs(marked: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield the first place, and the last place + 1, of each run of equal values in a mask (n,)."""
    borders = [0, *(np.flatnonzero(marked[1:] != marked[:-1]) + 1).tolist(), len(marked)]
    return ((first, last) for first, last in pairwise(borders) if first < last)


def _cut_by_size(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Yield the first place, and the last place + 1, of groups of sizes that reach `most` with their last member."""
    begin = total = 0
    for place, size in enumerate(sizes):
        total += size
        if total >= most:
            yield begin, place + 1
            begin, total = place + 1, 0
    if begin < len(sizes):
        yield begin, len(sizes)


def _weight(part: RecordBatch) -> int:
    """Return the bytes of records, at least _ROW_BYTES each: every record costs a row, however short it is."""
    return max(sum(map(len, part.lines)), (len(part.lines) + len(part.rejects)) * _ROW_BYTES)


def _message_numbers(origins: Sequence[Origin]) -> NDArray[np.int64]:
    """Return the number of the message of each record (n,)."""
    positions = [position for _, position in origins]
    try:  # most messages hold one record, whose position is the number
        return np.fromiter(map(int, positions), np.int64, len(positions))
    except ValueError:
        return np.fromiter(map(message_number, positions), np.int64, len(positions))
