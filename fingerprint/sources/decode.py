"""Messages to events: unwrap what a batch of messages holds, read its records, and reject what cannot be read.

Example:
    >>> record = b'{"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:18Z", "userIdentity": {"type": "Root"}}'
    >>> [piece] = decode_messages([Message("raw", 3, 17, value=record)], Settings())
    >>> piece.events["principal"].tolist(), piece.source.tolist()
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
from fingerprint.core.ports import Message
from fingerprint.core.settings import Settings
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import FlattenedRecords, LogSource, Origin, RecordBatch, merge_batches
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from fingerprint.sources.limits import ReadLimits

_ROW_BYTES = 256  # the least that a record counts where slices are cut: most records have four times as many

MessageParts = tuple[int, int, Iterator[RecordBatch]]  # first message, the one after the last, their records


class DecodedMessages(NamedTuple):
    """The events and rejects of the messages `begin` to `end` - 1 of those that were given.

    `events` (n rows) have their entities and lie where the backend's tables do. The rest lies on the host: `source` (n,) is the
    number of each event's message, `row` (n,) its index into `lines`, the records as they were written, and `times_ms` (n,) its
    time in ms since 1970. The position of a reject begins with the number of its message.

    A message that holds much comes in several pieces, each with nothing else in it: all but the last are partial, and no offset
    may be committed past them.
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

    @property
    def complete_until(self) -> int:
        """The first message that is not wholly in this piece and those before."""
        return self.end - self.is_partial


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
) -> Iterator[DecodedMessages]:
    """Yield pieces that together hold all the messages, in their order; never raises, whatever the bytes.

    A message that does not fit into memory is a reject.
    """
    decoder = _Decoder(messages, settings, backend, log_source)
    for piece in decoder.slices(decoder.split(0, len(messages))):
        yield from decoder.decode(piece)


def row_indices(events: pd.DataFrame) -> NDArray[np.int64]:
    """Return the column `row`, on the host, (n,)."""
    return frames.to_pandas(events[["row"]])["row"].to_numpy(np.int64)


def event_times_ms(events: pd.DataFrame) -> NDArray[np.int64]:
    """Return event times as ms since 1970, on the host, (n,)."""
    at: NDArray[np.int64] = arrays.to_host(frames.epoch_microseconds(events["event_time"])) // 1000
    return at


def message_number(position: str) -> int:
    """Return the number of the message of a position: 17 for `17/2/0`, a record in an envelope in message 17."""
    return int(position.partition("/")[0])


@dataclass(frozen=True, slots=True)
class _Decoder:
    messages: Sequence[Message]
    settings: Settings
    backend: Backend
    log_source: LogSource

    @property
    def limits(self) -> ReadLimits:
        return ReadLimits()

    def decode(self, cut: _RecordSlice) -> Iterator[DecodedMessages]:
        """Yield the events of a slice, or of smaller slices where it does not fit into memory or is to be split with care."""
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

    def split(self, begin: int, end: int, careful: Collection[int] = ()) -> Iterator[MessageParts]:
        """Yield messages from which, to which (exclusive), and their records in parts. Positions begin with the message's number.

        Messages that begin like a record are read together, except `careful` ones, which may hold several documents.
        """
        values = [message.value or b"" for message in self.messages[begin:end]]
        usual = np.array([value.startswith(self.log_source.RECORD_PREFIX) for value in values], bool)
        usual[[place - begin for place in careful]] = False
        borders = [0, *(np.flatnonzero(usual[1:] != usual[:-1]) + 1).tolist(), len(values)]
        for first, last in pairwise(borders):
            if first < last and usual[first]:
                records = self.log_source.split_lines(values[first:last], "", begin + first, self.limits)
                yield begin + first, begin + last, iter([records])
            else:
                for place in range(first, last):
                    parts = self.log_source.split_message_in_parts(
                        values[place], "", str(begin + place), self.limits
                    )
                    yield begin + place, begin + place + 1, parts

    def slices(self, split: Iterator[MessageParts]) -> Iterator[_RecordSlice]:
        """Yield the messages' records, cut where they come to the backend's `batch_bytes`, so that gzip costs no more memory.

        A message that comes in parts has slices of its own.
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
        """Return the slice without its records, each of its messages a reject: they do not fit into memory."""
        places = sorted(set(_message_numbers(cut.records.origins).tolist()))
        rejects = [Reject("", str(place), "does not fit into memory") for place in places]
        rest = RecordBatch([], [], cut.records.rejects + rejects, cut.records.skipped)
        return [cut._replace(records=rest)]

    def _one_by_one(self, cut: _RecordSlice) -> Iterator[_RecordSlice]:
        """Yield the messages of a slice, each in slices of its own."""
        for place in range(cut.begin, cut.end):
            yield from self.slices(self.split(place, place + 1))

    def _misread_messages(self, rejects: list[Reject]) -> set[int]:
        """Return messages that begin like a record and are none: a second, careful reading finds several documents in a row."""
        prefix = self.log_source.RECORD_PREFIX
        return {
            int(reject.position)
            for reject in rejects
            if reject.position.isdigit()
            and (self.messages[int(reject.position)].value or b"").startswith(prefix)
        }


def _partial_slices(place: int, parts: Iterator[RecordBatch], max_bytes: int) -> Iterator[_RecordSlice]:
    """Yield the slices of one message, each of about `max_bytes` bytes."""
    waiting: list[RecordBatch] = []
    for part, following in pairwise(chain(parts, [None])):
        waiting += [] if part is None else [part]
        if following is None or sum(map(_weight, waiting)) > max_bytes:
            yield _RecordSlice(place, place + 1, merge_batches(waiting), is_partial=following is not None)
            waiting = []


def _weight(part: RecordBatch) -> int:
    """Return bytes of records, short ones counted as long ones: each is a row, however little is in it."""
    return max(sum(map(len, part.lines)), (len(part.lines) + len(part.rejects)) * _ROW_BYTES)


def _message_numbers(origins: Sequence[Origin]) -> NDArray[np.int64]:
    """Return the number of the message each record came from, (n,)."""
    return np.fromiter((message_number(position) for _, position in origins), np.int64, len(origins))
