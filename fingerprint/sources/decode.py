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
from fingerprint.compute.backend import HOST, Backend
from fingerprint.core.alert import Reject
from fingerprint.core.ports import Message
from fingerprint.core.settings import Reading, Settings
from fingerprint.sources.cloudtrail import envelopes
from fingerprint.sources.cloudtrail.envelopes import Origin, Records
from fingerprint.sources.cloudtrail.identity import add_entities
from fingerprint.sources.flatten import Flat, flatten

_USUAL = b'{"eventVersion":'  # how AWS begins every record: these are read together
_ROW_BYTES = 256  # what a record counts at least where pieces are cut: AWS's have four times as many


class Piece(NamedTuple):
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
    at: NDArray[np.int64]
    torn: bool = False

    @property
    def done(self) -> int:
        """The first message that is not wholly in this piece and those before."""
        return self.end - self.torn


class _Cut(NamedTuple):
    """The records of a piece."""

    begin: int
    end: int
    records: Records
    torn: bool = False


def read(messages: Sequence[Message], settings: Settings, backend: Backend = HOST) -> Iterator[Piece]:
    """Pieces that together hold all the messages, in their order; never raises, whatever the bytes. A message that does not fit
    into memory is a reject."""
    bounds, most = settings.reading, backend.piece_bytes
    for cut in _cuts(_read(messages, bounds, 0, len(messages)), most):
        try:
            flat = flatten(cut.records, backend.tables)
        except MemoryError:
            cuts = _refused(cut) if cut.end - cut.begin == 1 else _cuts_alone(messages, cut, bounds, most)
        else:
            again = _doubtful(messages, flat.rejects)
            if not again:
                yield _piece(cut, flat, settings)
                continue
            cuts = _cuts(_read(messages, bounds, cut.begin, cut.end, again), most)
        for each in cuts:
            yield _piece(each, _flattened(each, backend.tables), settings)


def _piece(cut: _Cut, flat: Flat, settings: Settings) -> Piece:
    events = add_entities(flat.events, settings.entities)
    row, at = places(events), milliseconds(events)
    source = _message_of(cut.records.origins)[row]
    return Piece(
        cut.begin, cut.end, cut.records.lines, events, source, flat.rejects, flat.skipped, row, at, cut.torn
    )


def _flattened(cut: _Cut, tables: str) -> Flat:
    try:
        return flatten(cut.records, tables)
    except MemoryError:
        (refused,) = _refused(cut)
        return flatten(refused.records, tables)


def _refused(cut: _Cut) -> list[_Cut]:
    """The same without its records, each message a reject: they do not fit into memory."""
    places = sorted(set(_message_of(cut.records.origins).tolist()))
    rejects = [Reject("", str(place), "does not fit into memory") for place in places]
    rest = Records([], [], cut.records.rejects + rejects, cut.records.skipped)
    return [cut._replace(records=rest)]


def _cuts_alone(messages: Sequence[Message], cut: _Cut, bounds: Reading, most: int) -> Iterator[_Cut]:
    """The messages of a piece, each in pieces of its own."""
    for place in range(cut.begin, cut.end):
        yield from _cuts(_read(messages, bounds, place, place + 1), most)


def places(events: pd.DataFrame) -> NDArray[np.int64]:
    """The column `row`, on the host (n,)."""
    return frames.host(events[["row"]])["row"].to_numpy(np.int64)


def milliseconds(events: pd.DataFrame) -> NDArray[np.int64]:
    """Event times as ms since 1970, on the host (n,)."""
    at: NDArray[np.int64] = arrays.host(frames.microseconds(events["event_time"])) // 1000
    return at


def number(position: str) -> int:
    """`17/2/0`, a record in an envelope in message 17 -> 17."""
    return int(position.partition("/")[0])


def _doubtful(messages: Sequence[Message], rejects: list[Reject]) -> set[int]:
    """Messages that begin like a record and are not one: a second, careful reading finds several documents in a row."""
    return {
        int(reject.position)
        for reject in rejects
        if reject.position.isdigit() and (messages[int(reject.position)].value or b"").startswith(_USUAL)
    }


def _cuts(read: Iterator[tuple[int, int, Iterator[Records]]], most: int) -> Iterator[_Cut]:
    """The messages' records, cut where they come to `most` bytes, so that a poll of gzip costs no more. A message that comes in
    parts has pieces of its own."""
    waiting: list[Records] = []
    begin = end = held = 0
    for first, end, parts in read:
        part, following = next(parts), next(parts, None)
        begin = begin if waiting else first
        if following is None:
            waiting.append(part)
            held += _weight(part)
        if waiting and (held > most or following is not None):
            yield _Cut(begin, end if following is None else first, envelopes.merge(waiting))
            waiting, held = [], 0
        if following is not None:
            yield from _torn(end - 1, chain([part, following], parts), most)
    if waiting:
        yield _Cut(begin, end, envelopes.merge(waiting))


def _torn(place: int, parts: Iterator[Records], most: int) -> Iterator[_Cut]:
    """One message's pieces."""
    waiting: list[Records] = []
    for part, following in pairwise(chain(parts, [None])):
        waiting += [] if part is None else [part]
        if following is None or sum(map(_weight, waiting)) > most:
            yield _Cut(place, place + 1, envelopes.merge(waiting), torn=following is not None)
            waiting = []


def _weight(part: Records) -> int:
    """Bytes of records, short ones counted as long ones: each is a row, however little is in it."""
    return max(sum(map(len, part.lines)), (len(part.lines) + len(part.rejects)) * _ROW_BYTES)


def _read(
    messages: Sequence[Message], bounds: Reading, begin: int, end: int, careful: Collection[int] = ()
) -> Iterator[tuple[int, int, Iterator[Records]]]:
    """Messages from which, to which (exclusive), and their records in parts. Positions begin with the number of the message.

    Those that begin like a record are read together, but for those that are to be read with care."""
    values = [message.value or b"" for message in messages[begin:end]]
    usual = np.array([value.startswith(_USUAL) for value in values], bool)
    usual[[place - begin for place in careful]] = False
    borders = [0, *(np.flatnonzero(usual[1:] != usual[:-1]) + 1).tolist(), len(values)]
    for first, last in pairwise(borders):
        if first < last and usual[first]:
            records = envelopes.split_lines(values[first:last], "", begin + first, bounds)
            yield begin + first, begin + last, iter([records])
        else:
            for place in range(first, last):
                parts = envelopes.parts(values[place], "", str(begin + place), bounds)
                yield begin + place, begin + place + 1, parts


def _message_of(origins: Sequence[Origin]) -> NDArray[np.int64]:
    """The number of the message each record came from (n,)."""
    return np.fromiter((number(position) for _, position in origins), np.int64, len(origins))
