"""Messages to events: what lies in a batch of messages, whatever it is wrapped in, and what of it cannot be read.

Example:
    >>> record = b'{"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:18Z", "userIdentity": {"type": "Root"}}'
    >>> [piece] = read([Message("raw", 3, 17, value=record)], Settings())
    >>> piece.events["principal"].tolist(), piece.source.tolist()
    (['unknown:root'], [0])
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
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
from fingerprint.sources.cloudtrail import envelopes
from fingerprint.sources.cloudtrail.envelopes import Origin, RecordBatch
from fingerprint.sources.cloudtrail.identity import add_entity_columns
from fingerprint.sources.flatten import FlattenedRecords, flatten
from fingerprint.sources.limits import ReadLimits

_USUAL = b'{"eventVersion":'  # how AWS begins every record: these are read together
_ROW_BYTES = 256  # what a record counts at least where pieces are cut: AWS's have four times as many


class DecodedMessages(NamedTuple):
    """What lay in the messages `begin` to `end` - 1 of those that were given.

    `events` (n rows) have their entities and lie where the backend's tables do. What is said of them beside lies on the host:
    `source` (n,) is the number of each event's message, `row` (n,) its place in `lines`, the records as AWS wrote them, and `at`
    (n,) its time in ms since 1970. The position of a reject begins with the number of its message.

    A message that holds much comes in several pieces, each with nothing else in it: all but the last are `torn`, and nothing may
    be committed past them.
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
    """The records of a piece."""

    begin: int
    end: int
    records: RecordBatch
    is_partial: bool = False


def decode_messages(
    messages: Sequence[Message], settings: Settings, backend: Backend = HOST_BACKEND
) -> Iterator[DecodedMessages]:
    """Pieces that together hold all the messages, in their order; never raises, whatever the bytes. A message that does not fit
    into memory is a reject."""
    limits, most = ReadLimits(), backend.batch_bytes
    for cut in _slices(_split_messages(messages, limits, 0, len(messages)), most):
        try:
            flat = flatten(cut.records, backend.dataframe_library)
        except MemoryError:
            cuts = (
                _reject_slices(cut)
                if cut.end - cut.begin == 1
                else _single_message_slices(messages, cut, limits, most)
            )
        else:
            again = _messages_to_reread(messages, flat.rejects)
            if not again:
                yield _decode_slice(cut, flat, settings)
                continue
            cuts = _slices(_split_messages(messages, limits, cut.begin, cut.end, again), most)
        for each in cuts:
            yield _decode_slice(each, _flattened(each, backend.dataframe_library), settings)


def _decode_slice(cut: _RecordSlice, flat: FlattenedRecords, settings: Settings) -> DecodedMessages:
    events = add_entity_columns(flat.events, settings.entities)
    row, at = row_indices(events), event_times_ms(events)
    source = _message_numbers(cut.records.origins)[row]
    return DecodedMessages(
        cut.begin,
        cut.end,
        cut.records.lines,
        events,
        source,
        flat.rejects,
        flat.skipped,
        row,
        at,
        cut.is_partial,
    )


def _flattened(cut: _RecordSlice, tables: str) -> FlattenedRecords:
    try:
        return flatten(cut.records, tables)
    except MemoryError:
        (refused,) = _reject_slices(cut)
        return flatten(refused.records, tables)


def _reject_slices(cut: _RecordSlice) -> list[_RecordSlice]:
    """The same without its records, each message a reject: they do not fit into memory."""
    places = sorted(set(_message_numbers(cut.records.origins).tolist()))
    rejects = [Reject("", str(place), "does not fit into memory") for place in places]
    rest = RecordBatch([], [], cut.records.rejects + rejects, cut.records.skipped)
    return [cut._replace(records=rest)]


def _single_message_slices(
    messages: Sequence[Message], cut: _RecordSlice, limits: ReadLimits, most: int
) -> Iterator[_RecordSlice]:
    """The messages of a piece, each in pieces of its own."""
    for place in range(cut.begin, cut.end):
        yield from _slices(_split_messages(messages, limits, place, place + 1), most)


def row_indices(events: pd.DataFrame) -> NDArray[np.int64]:
    """The column `row`, on the host (n,)."""
    return frames.to_pandas(events[["row"]])["row"].to_numpy(np.int64)


def event_times_ms(events: pd.DataFrame) -> NDArray[np.int64]:
    """Event times as ms since 1970, on the host (n,)."""
    at: NDArray[np.int64] = arrays.to_host(frames.epoch_microseconds(events["event_time"])) // 1000
    return at


def message_number(position: str) -> int:
    """`17/2/0`, a record in an envelope in message 17 -> 17."""
    return int(position.partition("/")[0])


def _messages_to_reread(messages: Sequence[Message], rejects: list[Reject]) -> set[int]:
    """Messages that begin like a record and are not one: a second, careful reading finds several documents in a row."""
    return {
        int(reject.position)
        for reject in rejects
        if reject.position.isdigit() and (messages[int(reject.position)].value or b"").startswith(_USUAL)
    }


def _slices(read: Iterator[tuple[int, int, Iterator[RecordBatch]]], most: int) -> Iterator[_RecordSlice]:
    """The messages' records, cut where they come to `most` bytes, so that a poll of gzip costs no more. A message that comes in
    parts has pieces of its own."""
    waiting: list[RecordBatch] = []
    begin = end = held = 0
    for first, end, parts in read:
        part, following = next(parts), next(parts, None)
        begin = begin if waiting else first
        if following is None:
            waiting.append(part)
            held += _weight(part)
        if waiting and (held > most or following is not None):
            yield _RecordSlice(begin, end if following is None else first, envelopes.merge_batches(waiting))
            waiting, held = [], 0
        if following is not None:
            yield from _partial_slices(end - 1, chain([part, following], parts), most)
    if waiting:
        yield _RecordSlice(begin, end, envelopes.merge_batches(waiting))


def _partial_slices(place: int, parts: Iterator[RecordBatch], most: int) -> Iterator[_RecordSlice]:
    """One message's pieces."""
    waiting: list[RecordBatch] = []
    for part, following in pairwise(chain(parts, [None])):
        waiting += [] if part is None else [part]
        if following is None or sum(map(_weight, waiting)) > most:
            yield _RecordSlice(
                place, place + 1, envelopes.merge_batches(waiting), is_partial=following is not None
            )
            waiting = []


def _weight(part: RecordBatch) -> int:
    """Bytes of records, short ones counted as long ones: each is a row, however little is in it."""
    return max(sum(map(len, part.lines)), (len(part.lines) + len(part.rejects)) * _ROW_BYTES)


def _split_messages(
    messages: Sequence[Message], limits: ReadLimits, begin: int, end: int, careful: Collection[int] = ()
) -> Iterator[tuple[int, int, Iterator[RecordBatch]]]:
    """Messages from which, to which (exclusive), and their records in parts. Positions begin with the number of the message.

    Those that begin like a record are read together, but for those that are to be read with care."""
    values = [message.value or b"" for message in messages[begin:end]]
    usual = np.array([value.startswith(_USUAL) for value in values], bool)
    usual[[place - begin for place in careful]] = False
    borders = [0, *(np.flatnonzero(usual[1:] != usual[:-1]) + 1).tolist(), len(values)]
    for first, last in pairwise(borders):
        if first < last and usual[first]:
            records = envelopes.split_lines(values[first:last], "", begin + first, limits)
            yield begin + first, begin + last, iter([records])
        else:
            for place in range(first, last):
                parts = envelopes.split_message_in_parts(values[place], "", str(begin + place), limits)
                yield begin + place, begin + place + 1, parts


def _message_numbers(origins: Sequence[Origin]) -> NDArray[np.int64]:
    """The number of the message each record came from (n,)."""
    return np.fromiter((message_number(position) for _, position in origins), np.int64, len(origins))
