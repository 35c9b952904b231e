"""Messages to records keyed by their principal, and to dead letters: what `fingerprint ingest` does to a batch.

Example:
    >>> record = b'{"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:18Z", "userIdentity": {"type": "Root"}}'
    >>> [batch] = Ingesting(Settings()).read([Message("raw", 3, 17, value=record)])
    >>> batch.records[0].key, batch.records[0].headers
    (b'unknown:root', (('source', b'raw/3/17'), ('watermark', b'1688989338000')))

A record goes out as AWS wrote it. Its key is its principal, whatever the granularity of entities, so that everything
a principal did stays in order in one partition. Its headers carry over the re-keying where it came from, and the
*watermark* of that source partition: the latest event time seen there up to this record, in milliseconds; 0 while
none is known.

A *dead letter* is the original message, byte for byte, with the reason in its headers. One unreadable record makes a
dead letter of its message; the message's other records go out all the same, and come again if the letter is replayed.
A message too large to be sent again leaves a letter without a value, which says where the message lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint import cloudtrail
from fingerprint.cloudtrail import Origin, Records
from fingerprint.domain import Reject
from fingerprint.entity import add_entities
from fingerprint.flatten import Flat, flatten
from fingerprint.hostile import visible
from fingerprint.ports import Headers, Message, Partition
from fingerprint.settings import Ingest, Reading, Settings

HELD_BYTES = 64 << 20  # expanded records are passed on at this size, so that a poll of gzip costs no more
OWN_HEADERS = 4  # the first so many headers of a dead letter are ours: topic, partition, offset, reason
_USUAL = b'{"eventVersion":'  # how AWS begins every record: these are read together
_REASON_LENGTH = 500
_FRAME = 512  # bytes that Kafka puts around a message, at most


class Outgoing(NamedTuple):
    """What a producer is to send."""

    value: bytes | None
    key: bytes | None
    headers: Headers


class Batch(NamedTuple):
    """What became of the messages `begin` to `end` of those that were given.

    `record_from` and `dead_from`, ascending, are the messages (their numbers in what was given) behind `records` and
    `dead`. `skipped` counts what is no event by design, `empty` messages with nothing in them, `future` records dated
    past their message's arrival, which move no watermark.
    """

    begin: int
    end: int
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
            records=self.records[:records],
            record_from=self.record_from[:records],
            dead=self.dead[:dead],
            dead_from=self.dead_from[:dead],
        )


class Ingesting:
    """Reads messages of any partitions, and remembers how far the event time of each has come."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.watermarks: dict[Partition, int] = {}  # ms since the epoch

    def read(self, messages: Sequence[Message]) -> Iterator[Batch]:
        """Batches that together hold all the messages, in their order; never raises, whatever the bytes."""
        for begin, end, records in _pieces(messages, self.settings.reading):
            yield self._batch(messages, begin, end, records)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Others read these partitions now."""
        for partition in partitions:
            self.watermarks.pop(partition, None)

    def _batch(self, messages: Sequence[Message], begin: int, end: int, records: Records) -> Batch:
        records, flat = self._flatten(messages, records)
        events = add_entities(flat.events, self.settings.entities)
        source = _message_of(records.origins)[events["row"].to_numpy(np.int64)]
        marks, future = self._advance(messages, source, events["event_time"])
        outgoing = _keyed(messages, source, records.lines, events, marks)
        fits, rejects = self._too_large(outgoing, source)
        dead, dead_from = _dead_letters(messages, flat.rejects + rejects, self.settings.kafka.message_bytes)
        return Batch(
            begin,
            end,
            [outgoing[row] for row in fits.tolist()] if rejects else outgoing,
            source[fits],
            dead,
            dead_from,
            flat.skipped,
            sum(not message.value for message in messages[begin:end]),
            future,
        )

    def _flatten(self, messages: Sequence[Message], records: Records) -> tuple[Records, Flat]:
        """Reads a batch; messages that begin like a record and are not one get a second, careful reading, which
        finds several documents in a row."""
        flat = flatten(records)
        again = {
            int(reject.position)
            for reject in flat.rejects
            if reject.position.isdigit() and (messages[int(reject.position)].value or b"").startswith(_USUAL)
        }
        if not again:
            return records, flat
        records = _read_again(messages, records, again, self.settings.reading)
        return records, flatten(records)

    def _advance(
        self, messages: Sequence[Message], source: NDArray[np.int64], times: pd.Series
    ) -> tuple[NDArray[np.int64], int]:
        """The watermark of each record's source partition up to that record, ms (n,); how many were future-dated."""
        at = times.astype("datetime64[ms, UTC]").astype(np.int64).to_numpy()
        arrived = np.array([message.timestamp for message in messages], np.int64)[source]
        future = (arrived > 0) & (at > arrived + self.settings.ingest.future_seconds * 1000)
        homes = [message.home for message in messages]
        numbers = {home: number for number, home in enumerate(dict.fromkeys(homes))}
        owner = np.array([numbers[home] for home in homes], np.int64)[source]
        marks = np.zeros(len(at), np.int64)
        for partition, number in numbers.items():
            here = owner == number
            held = self.watermarks.get(partition, 0)
            marks[here] = np.maximum.accumulate(np.where(future[here], held, np.maximum(at[here], held)))
            if here.any():
                self.watermarks[partition] = int(marks[here][-1])
        return marks, int(future.sum())

    def _too_large(
        self, outgoing: list[Outgoing], source: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], list[Reject]]:
        """Which records fit into a message of Kafka's, and a reject for each that does not."""
        limit = self.settings.kafka.message_bytes
        fits = np.array([_size(each) <= limit for each in outgoing], bool)
        reason = f"a record larger than the {limit:,} bytes of a message"
        return np.flatnonzero(fits), [Reject("", str(number), reason) for number in source[~fits].tolist()]


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


def _pieces(messages: Sequence[Message], bounds: Reading) -> Iterator[tuple[int, int, Records]]:
    """The messages' records, cut where they come to HELD_BYTES: first message, last message + 1, records."""
    waiting: list[Records] = []
    held = begin = 0
    for end, records in _read(messages, bounds):
        waiting.append(records)
        held += sum(map(len, records.lines))
        if held > HELD_BYTES or end == len(messages):
            yield begin, end, cloudtrail.merge(waiting)
            waiting, held, begin = [], 0, end


def _read(messages: Sequence[Message], bounds: Reading) -> Iterator[tuple[int, Records]]:
    """Records, and the number of the message after the last they came from. Positions begin with the number of the
    message."""

    def usual(numbered: tuple[int, Message]) -> bool:
        return (numbered[1].value or b"").startswith(_USUAL)

    for bare, group in groupby(enumerate(messages), usual):
        run = list(group)
        if bare:
            lines = [message.value or b"" for _, message in run]
            yield run[-1][0] + 1, cloudtrail.split_lines(lines, "", run[0][0], bounds)
        else:
            for number, message in run:
                yield number + 1, cloudtrail.split(message.value or b"", "", str(number), bounds)


def _read_again(messages: Sequence[Message], records: Records, again: set[int], bounds: Reading) -> Records:
    """The same records, with those of the messages `again` taken from a careful reading, in order."""
    kept = [n for n, origin in enumerate(records.origins) if _number(origin[1]) not in again]
    careful = [
        cloudtrail.split(messages[number].value or b"", "", str(number), bounds) for number in sorted(again)
    ]
    rest = Records(
        [records.lines[n] for n in kept],
        [records.origins[n] for n in kept],
        [reject for reject in records.rejects if _number(reject.position) not in again],
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
    return np.fromiter((_number(position) for _, position in origins), np.int64, len(origins))


def _number(position: str) -> int:
    """`17/2/0`, a record in an envelope in message 17 -> 17."""
    return int(position.partition("/")[0])


def _keyed(
    messages: Sequence[Message],
    source: NDArray[np.int64],
    lines: list[bytes],
    events: pd.DataFrame,
    marks: NDArray[np.int64],
) -> list[Outgoing]:
    codes, principals = pd.factorize(events["principal"])
    keys = [str(principal).encode() for principal in principals]
    sources = {number: _place(messages[number]) for number in np.unique(source).tolist()}
    columns = (events["row"].tolist(), codes.tolist(), source.tolist(), marks.tolist())
    return [
        Outgoing(lines[row], keys[code], (("source", sources[number]), ("watermark", b"%d" % mark)))
        for row, code, number, mark in zip(*columns, strict=True)
    ]


def _place(message: Message) -> bytes:
    return f"{message.topic}/{message.partition}/{message.offset}".encode()


def _dead_letters(
    messages: Sequence[Message], rejects: Sequence[Reject], limit: int
) -> tuple[list[Outgoing], NDArray[np.int64]]:
    """One letter a message, whatever number of its records could not be read."""
    reasons: dict[int, list[str]] = {}
    for reject in rejects:
        reasons.setdefault(_number(reject.position), []).append(reject.reason)
    numbers = sorted(reasons)
    letters = [_letter(messages[number], reasons[number], limit) for number in numbers]
    return letters, np.array(numbers, np.int64)


def _letter(message: Message, reasons: list[str], limit: int) -> Outgoing:
    more = f" (and {len(reasons) - 1:,} more in this message)" if len(reasons) > 1 else ""
    reason = visible(reasons[0])[:_REASON_LENGTH] + more
    letter = Outgoing(message.value, message.key, (*_origin(message, reason), *message.headers))
    if _size(letter) <= limit:
        return letter
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
