"""Messages to events: what lies in a batch of messages, whatever it is wrapped in, and what of it cannot be read.

Example:
    >>> record = b'{"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:18Z", "userIdentity": {"type": "Root"}}'
    >>> [piece] = read([Message("raw", 3, 17, value=record)], Settings())
    >>> piece.events["principal"].tolist(), piece.source.tolist()
    (['unknown:root'], [0])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint import arrays, cloudtrail, frames
from fingerprint.backend import HOST, Backend
from fingerprint.cloudtrail import Origin, Records
from fingerprint.domain import Reject
from fingerprint.entity import add_entities
from fingerprint.flatten import Flat, flatten
from fingerprint.ports import Message
from fingerprint.settings import Reading, Settings

_USUAL = b'{"eventVersion":'  # how AWS begins every record: these are read together


class Piece(NamedTuple):
    """What lay in the messages `begin` to `end` - 1 of those that were given.

    `events` (n rows) have their entities and lie where the backend's tables do. What is said of them beside lies on the host:
    `source` (n,) is the number of each event's message, `row` (n,) its place in `lines`, the records as AWS wrote them, and `at`
    (n,) its time in ms since 1970. The position of a reject begins with the number of its message.
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


def read(messages: Sequence[Message], settings: Settings, backend: Backend = HOST) -> Iterator[Piece]:
    """Pieces that together hold all the messages, in their order; never raises, whatever the bytes."""
    for begin, end, records in _pieces(messages, settings.reading, backend.piece_bytes):
        records, flat = _flatten(messages, records, settings.reading, backend.tables)
        events = add_entities(flat.events, settings.entities)
        row, at = places(events), milliseconds(events)
        source = _message_of(records.origins)[row]
        yield Piece(begin, end, records.lines, events, source, flat.rejects, flat.skipped, row, at)


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


def _flatten(
    messages: Sequence[Message], records: Records, bounds: Reading, tables: str
) -> tuple[Records, Flat]:
    """Reads a piece; messages that begin like a record and are not one get a second, careful reading, which
    finds several documents in a row."""
    flat = flatten(records, tables)
    again = {
        int(reject.position)
        for reject in flat.rejects
        if reject.position.isdigit() and (messages[int(reject.position)].value or b"").startswith(_USUAL)
    }
    if not again:
        return records, flat
    records = _read_again(messages, records, again, bounds)
    return records, flatten(records, tables)


def _pieces(messages: Sequence[Message], bounds: Reading, most: int) -> Iterator[tuple[int, int, Records]]:
    """The messages' records, cut where they come to `most` bytes, so that a poll of gzip costs no more: first message, last
    message + 1, records."""
    waiting: list[Records] = []
    held = begin = 0
    for end, records in _read(messages, bounds):
        waiting.append(records)
        held += sum(map(len, records.lines))
        if held > most or end == len(messages):
            yield begin, end, cloudtrail.merge(waiting)
            waiting, held, begin = [], 0, end


def _read(messages: Sequence[Message], bounds: Reading) -> Iterator[tuple[int, Records]]:
    """Records, and the number of the message after the last they came from. Positions begin with the number of the
    message."""

    values = [message.value or b"" for message in messages]
    usual = np.array([value.startswith(_USUAL) for value in values], bool)
    borders = [0, *(np.flatnonzero(usual[1:] != usual[:-1]) + 1).tolist(), len(values)]
    for begin, end in pairwise(borders):
        if begin < end and usual[begin]:
            yield end, cloudtrail.split_lines(values[begin:end], "", begin, bounds)
        else:
            for place in range(begin, end):
                yield place + 1, cloudtrail.split(values[place], "", str(place), bounds)


def _read_again(messages: Sequence[Message], records: Records, again: set[int], bounds: Reading) -> Records:
    """The same records, with those of the messages `again` taken from a careful reading, in order."""
    kept = [n for n, origin in enumerate(records.origins) if number(origin[1]) not in again]
    careful = [
        cloudtrail.split(messages[place].value or b"", "", str(place), bounds) for place in sorted(again)
    ]
    rest = Records(
        [records.lines[n] for n in kept],
        [records.origins[n] for n in kept],
        [reject for reject in records.rejects if number(reject.position) not in again],
        records.skipped,
    )
    merged = cloudtrail.merge([rest, *careful])
    order = np.argsort(_message_of(merged.origins), kind="stable").tolist()
    return Records(
        [merged.lines[n] for n in order],
        [merged.origins[n] for n in order],
        merged.rejects,
        merged.skipped,
    )


def _message_of(origins: Sequence[Origin]) -> NDArray[np.int64]:
    """The number of the message each record came from (n,)."""
    return np.fromiter((number(position) for _, position in origins), np.int64, len(origins))
