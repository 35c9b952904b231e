"""Messages to records keyed by their principal, and to dead letters: what `fingerprint ingest` does to a batch.

Example:
    >>> record = b'{"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:18Z", "userIdentity": {"type": "Root"}}'
    >>> [batch] = Ingesting(Settings()).read([Message("raw", 3, 17, value=record, timestamp=1688989400000)])
    >>> batch.records[0].key, batch.records[0].headers
    (b'unknown:root', (('source', b'raw/3/17'), ('watermark', b'1688989338000')))

A record goes out as AWS wrote it. Its key is its principal, whatever the granularity of entities, so that everything
a principal did stays in order in one partition. Its headers carry over the re-keying where it came from, and the
*watermark* of that source partition: the latest event time seen there up to this record, in milliseconds; 0 while
none is known.

A record that is dated past the arrival of its message is not sent on: its time would move the clocks of whoever reads it
(`arrival`). Its message becomes a dead letter.

A *dead letter* is the original message, byte for byte, with the reason in its headers. One unreadable record makes a
dead letter of its message; the message's other records go out all the same, and come again if the letter is replayed.
A message too large to be sent again leaves a letter without a value, which says where the message lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.core.alert import Reject
from fingerprint.core.ports import Headers, Message, Partition
from fingerprint.core.sanitize import visible
from fingerprint.core.settings import Ingest, Settings
from fingerprint.sources import arrival
from fingerprint.sources.arrival import Now, wall_clock
from fingerprint.sources.decode import Piece, number, read

Longs = NDArray[np.int64]

OWN_HEADERS = 4  # the first so many headers of a dead letter are ours: topic, partition, offset, reason
_REASON_LENGTH = 500
_FRAME = 512  # bytes that Kafka puts around a message, at most


class Outgoing(NamedTuple):
    """What a producer is to send."""

    value: bytes | None
    key: bytes | None
    headers: Headers


class Batch(NamedTuple):
    """What became of the messages `begin` to `end` of those that were given.

    `done` is the first that is not wholly dealt with: of a message that holds much, a batch has a part.
    `record_from` and `dead_from`, ascending, are the messages (their numbers in what was given) behind `records` and
    `dead`. `skipped` counts what is no event by design, `empty` messages with nothing in them, `future` records dated
    past their message's arrival, which are not sent on.
    """

    begin: int
    end: int
    done: int
    records: list[Outgoing]
    record_from: NDArray[np.int64]
    dead: list[Outgoing]
    dead_from: NDArray[np.int64]
    skipped: int
    empty: int
    future: int

    def until(self, end: int) -> Batch:
        """Only what came from messages before `end`; the counts stay."""
        records = int(np.searchsorted(self.record_from, end))
        dead = int(np.searchsorted(self.dead_from, end))
        return self._replace(
            end=end,
            done=min(self.done, end),
            records=self.records[:records],
            record_from=self.record_from[:records],
            dead=self.dead[:dead],
            dead_from=self.dead_from[:dead],
        )


class Ingesting:
    """Reads messages of any partitions, and remembers how far the event time of each has come."""

    def __init__(self, settings: Settings, now: Now = wall_clock) -> None:
        self.settings, self.now = settings, now
        self.letters = Letters(settings.kafka.message_bytes)
        self.watermarks: dict[Partition, int] = {}  # ms since the epoch

    def read(self, messages: Sequence[Message]) -> Iterator[Batch]:
        """Batches that together hold all the messages, in their order; never raises, whatever the bytes."""
        for piece in read(messages, self.settings):
            yield self._batch(messages, piece)

    def unread(self, message: Message, reason: str) -> Batch:
        """A message that is not to be read, as a dead letter."""
        dead = letter(message, reason, 1, self.settings.kafka.message_bytes)
        return Batch(0, 1, 1, [], np.zeros(0, np.int64), [dead], np.zeros(1, np.int64), 0, 0, 0)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Others read these partitions now."""
        for partition in partitions:
            self.watermarks.pop(partition, None)

    def _batch(self, messages: Sequence[Message], piece: Piece) -> Batch:
        limit = self.settings.kafka.message_bytes
        piece, future = self._believed(messages, piece)
        marks = self._advance(messages, piece)
        records, record_from, too_large = keyed(messages, piece, marks, limit)
        dead, dead_from = self.letters.of(messages, piece, piece.rejects + too_large)
        return Batch(
            piece.begin,
            piece.end,
            piece.done,
            records,
            record_from,
            dead,
            dead_from,
            piece.skipped,
            sum(not message.value for message in messages[piece.begin : piece.end]),
            future,
        )

    def _believed(self, messages: Sequence[Message], piece: Piece) -> tuple[Piece, int]:
        timestamps = np.array([message.timestamp for message in messages], np.int64)
        came = arrival.arrived(timestamps, self.now())[piece.source]
        return without_future(piece, came, self.settings.ingest.future_seconds)

    def _advance(self, messages: Sequence[Message], piece: Piece) -> Longs:
        """The watermark of each record's source partition up to that record, ms (n,)."""
        at, source = piece.at, piece.source
        homes = [message.home for message in messages]
        numbers = {home: code for code, home in enumerate(dict.fromkeys(homes))}
        owner = np.array([numbers[home] for home in homes], np.int64)[source]
        marks = np.zeros(len(at), np.int64)
        for partition, code in numbers.items():
            here = owner == code
            marks[here] = latest(at[here], self.watermarks.get(partition, 0))
            if here.any():
                self.watermarks[partition] = int(marks[here][-1])
        return marks


class Limit:
    """Stops a bad deployment from draining the topic into dead letters.

    Reached when, of the last `dead_window` messages, `dead_count` or more, and more than `dead_share`, were dead.
    """

    def __init__(self, settings: Ingest) -> None:
        self.settings = settings
        self.recent = np.zeros(0, bool)

    def reached(self, dead: NDArray[np.bool_]) -> int | None:
        """The index of the message that reaches the limit, None if none does. `dead`: for each message, in order."""
        window = self.settings.dead_window
        seen = np.concatenate([self.recent, dead])
        total = np.cumsum(seen)
        before = np.concatenate([np.zeros(window, np.int64), total])[: len(total)]
        size = np.minimum(np.arange(1, len(seen) + 1), window)
        count = total - before
        past = (count >= self.settings.dead_count) & (count > self.settings.dead_share * size)
        found = np.flatnonzero(past[len(self.recent) :])
        self.recent = seen[-window:]
        return int(found[0]) if len(found) else None


def without_future(piece: Piece, arrived: Longs, seconds: int) -> tuple[Piece, int]:
    """The piece without its records that are dated more than `seconds` past their arrival, ms (n,), and how many those are.
    Each is a reject of the message that it came in."""
    future = arrival.future_dated(piece.at, arrived, seconds)
    if not future.any():
        return piece, 0
    reason = arrival.FUTURE.format(seconds=seconds)
    rejects = [Reject("", str(each), reason) for each in piece.source[future].tolist()]
    kept = piece._replace(
        events=frames.rows(piece.events, ~future),
        source=piece.source[~future],
        rejects=piece.rejects + rejects,
        row=piece.row[~future],
        at=piece.at[~future],
    )
    return kept, int(future.sum())


def latest(at: Longs, held: int) -> Longs:
    """The latest event time up to each record of one source (n,), `held` before the first."""
    return np.maximum.accumulate(np.maximum(at, held))


def keyed(
    messages: Sequence[Message], piece: Piece, marks: Longs, limit: int
) -> tuple[list[Outgoing], Longs, list[Reject]]:
    """The records of a piece as they go out, the number of the message of each, and a reject for each that is larger than
    the `limit` bytes of a message of Kafka's. `marks` (n,): the watermark that each carries."""
    outgoing = _addressed(messages, piece, marks)
    fits = np.array([_size(each) <= limit for each in outgoing], bool)
    reason = f"a record larger than the {limit:,} bytes of a message"
    rejects = [Reject("", str(each), reason) for each in piece.source[~fits].tolist()]
    kept = [outgoing[row] for row in np.flatnonzero(fits).tolist()] if rejects else outgoing
    return kept, piece.source[fits], rejects


def _addressed(messages: Sequence[Message], piece: Piece, marks: Longs) -> list[Outgoing]:
    codes, principals = pd.factorize(piece.events["principal"])
    keys = [str(principal).encode() for principal in principals]
    sources = {each: _place(messages[each]) for each in np.unique(piece.source).tolist()}
    columns = (piece.row.tolist(), codes.tolist(), piece.source.tolist(), marks.tolist())
    return [
        Outgoing(piece.lines[row], keys[code], (("source", sources[each]), ("watermark", b"%d" % mark)))
        for row, code, each, mark in zip(*columns, strict=True)
    ]


def _place(message: Message) -> bytes:
    return f"{message.topic}/{message.partition}/{message.offset}".encode()


class Letters:
    """Dead letters, one a message, whatever number of its records could not be read; also of one that comes in several pieces."""

    def __init__(self, limit: int) -> None:
        self.limit = limit  # bytes; a message larger than that leaves a letter without it
        self.torn: tuple[str, int] | None = (
            None  # first reason, and how many, of the message that goes on in the next piece
        )

    def of(
        self, messages: Sequence[Message], piece: Piece, rejects: Sequence[Reject]
    ) -> tuple[list[Outgoing], NDArray[np.int64]]:
        """The letters of messages that are over with this piece, and the number of the message of each. The position of a reject
        begins with its message's number."""
        reasons = {piece.begin: self.torn} if self.torn else {}
        for reject in rejects:
            place = number(reject.position)
            first, count = reasons.get(place, (reject.reason, 0))
            reasons[place] = first, count + reject.count
        self.torn = reasons.pop(piece.end - 1, None) if piece.torn else None
        numbers = sorted(reasons)
        letters = [letter(messages[each], *reasons[each], self.limit) for each in numbers]
        return letters, np.array(numbers, np.int64)


def letter(message: Message, reason: str, count: int, limit: int) -> Outgoing:
    """The dead letter of a message of which `count` things could not be read, the first for this reason."""
    more = f" (and {count - 1:,} more in this message)" if count > 1 else ""
    reason = visible(reason)[:_REASON_LENGTH] + more
    whole = Outgoing(message.value, message.key, (*_origin(message, reason), *message.headers))
    if _size(whole) <= limit:
        return whole
    reason += (
        f"; its {len(message.value or b''):,} bytes are too many for a letter, find them where it came from"
    )
    return Outgoing(None, None, _origin(message, reason))


def _origin(message: Message, reason: str) -> Headers:
    return (
        ("topic", message.topic.encode()),
        ("partition", b"%d" % message.partition),
        ("offset", b"%d" % message.offset),
        ("reason", reason.encode(errors="replace")),
    )


def _size(outgoing: Outgoing) -> int:
    headers = sum(len(name) + len(value or b"") + 4 for name, value in outgoing.headers)
    return len(outgoing.value or b"") + len(outgoing.key or b"") + headers + _FRAME
