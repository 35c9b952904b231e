"""Messages of the events topic: one for each record, or a columnar one for many records of the same partition.

Example:
    >>> outgoing = EventMessages(settings, partitions=lambda: 4).build(messages, decoded, watermarks)
    >>> outgoing.messages[0].key, outgoing.rejects
    (b'123456789012:role/deploy', [])

Every message is in the partition of its principals, whatever the granularity of entities, so that all events of a principal stay
in order in one partition.

- A single record is sent as AWS wrote it, with its principal as the key. Its headers have its source and the *watermark* of the
  source partition: the latest event time seen there up to this record, in milliseconds; 0 while none is known.
- A columnar message (`sources.columnar`) has one of its principals as the key, and the same facts in its rows.

A table of few records is larger than the records. So a poll is sent as columnar messages only if it has at least MIN_EVENTS for
each partition.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Longs
from fingerprint.compute.dictionary import encode_few
from fingerprint.core.alert import Reject
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Headers, Message, Partition, Producer
from fingerprint.core.settings import Settings
from fingerprint.sources.columnar import MAX_EVENTS, EventsTable, events_table, write_table
from fingerprint.sources.decode import DecodedMessages, decode_messages

COUNT_SECONDS = 60.0
MIN_EVENTS = 16  # for each partition: fewer would be larger and slower as a table
MESSAGE_OVERHEAD = 512  # bytes that Kafka puts around a message, at most


class PartitionCount:
    """The number of a topic's partitions, which the producer is asked for every COUNT_SECONDS; 0 while it is unknown."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.producer, self.topic = producer, topic
        self.count, self.counted_at = 0, -math.inf

    def __call__(self) -> int:
        """Return the number, or 0."""
        if time.monotonic() - self.counted_at > COUNT_SECONDS:
            try:
                self.count = self.producer.partition_count(self.topic)
            except FingerprintError:
                self.count = 0
            self.counted_at = time.monotonic()
        return self.count


class OutgoingMessage(NamedTuple):
    """A message to send, with the number of its `records`."""

    value: bytes | None
    key: bytes | None
    headers: Headers
    records: int = 1


class EventsToSend(NamedTuple):
    """Messages of the events topic, and rejects of records that no message can hold.

    `sources` (M,), ascending, are the indices, in the poll, of the first input message behind each message.
    """

    messages: list[OutgoingMessage]
    sources: Longs
    rejects: list[Reject]


class EventMessages:
    """Builds messages from decoded records. `partitions()` is the events topic's number of partitions, 0 while unknown."""

    def __init__(self, settings: Settings, partitions: Callable[[], int] = lambda: 0) -> None:
        self.entities, self.max_bytes = settings.entities, settings.kafka.max_request_size
        self.partitions = partitions

    def build(self, messages: Sequence[Message], decoded: DecodedMessages, watermarks: Longs) -> EventsToSend:
        """Return the messages of n decoded events; `watermarks` (n,) are in ms."""
        codes, principals = pd.factorize(decoded.events["principal"])
        keys = [str(principal).encode() for principal in principals]
        events = _Events(messages, decoded, watermarks, codes, keys)
        partitions = self.partitions() if len(codes) >= MIN_EVENTS else 0
        rows = np.arange(len(codes))
        if not 0 < partitions <= len(rows) // MIN_EVENTS:
            return self._within_limit(events.as_records(rows))
        table, partition = events.as_table(), hashing.kafka_partitions(keys, partitions)[codes]
        order = np.argsort(partition, kind="stable")
        built = [
            each
            for share in np.split(order, np.flatnonzero(np.diff(partition[order])) + 1)
            for each in self._share_messages(events, table, share)
        ]
        return self._within_limit(sorted(built, key=lambda each: each[0]))

    def _share_messages(self, events: _Events, table: EventsTable, rows: Longs) -> Iterator[_SourcedMessage]:
        """Yield columnar messages of some rows, in their order, as few as possible: one that is too large is halved.

        A single record becomes a message of its own.
        """
        if len(rows) == 1:
            yield from events.as_records(rows)
            return
        if len(rows) <= MAX_EVENTS:
            outgoing = OutgoingMessage(
                write_table(table, rows, self.entities), events.key_of(rows[0]), (), len(rows)
            )
            if encoded_size(outgoing) <= self.max_bytes:
                yield int(events.decoded.source[rows[0]]), outgoing
                return
        for part in np.array_split(rows, max(math.ceil(len(rows) / MAX_EVENTS), 2)):
            yield from self._share_messages(events, table, part)

    def _within_limit(self, built: Sequence[_SourcedMessage]) -> EventsToSend:
        """Return the messages, and rejects in place of those records that are larger than a message may be."""
        fits = np.array([encoded_size(each) <= self.max_bytes for _, each in built], bool)
        reason = f"a record larger than the {self.max_bytes:,} bytes of a message"
        source = np.array([place for place, _ in built], np.int64)
        rejects = [Reject("", str(each), reason) for each in source[~fits].tolist()]
        return EventsToSend(
            [each for (_, each), fit in zip(built, fits.tolist(), strict=True) if fit], source[fits], rejects
        )


# Index, in the poll, of the first input message behind a message, and the message to send
_SourcedMessage = tuple[int, OutgoingMessage]


@dataclass(frozen=True, slots=True)
class _Events:
    """The n events of decoded messages; `codes` (n,) number the `keys`, their principals; `watermarks` (n,) are in ms."""

    messages: Sequence[Message]
    decoded: DecodedMessages
    watermarks: Longs
    codes: NDArray[np.intp]
    keys: Sequence[bytes]

    def key_of(self, row: int) -> bytes:
        return self.keys[self.codes[row]]

    def as_records(self, rows: Longs) -> list[_SourcedMessage]:
        """Return a message for each of some rows."""
        source = self.decoded.source[rows]
        sources = {each: _source_header(self.messages[each]) for each in np.unique(source).tolist()}
        columns = (self.decoded.row[rows], self.codes[rows], source, self.watermarks[rows])
        return [
            (
                each,
                OutgoingMessage(
                    self.decoded.lines[line],
                    self.keys[code],
                    (("source", sources[each]), ("watermark", b"%d" % mark)),
                ),
            )
            for line, code, each, mark in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def as_table(self) -> EventsTable:
        """Return all rows as one table, from which columnar messages take parts."""
        source, owners = encode_few([(each.topic, each.partition) for each in self.messages])
        sources = [Partition(*owner).label for owner in owners]
        return events_table(
            self.decoded.events, self.decoded.lines, sources, source[self.decoded.source], self.watermarks
        )


def single_records(message: Message, settings: Settings) -> list[OutgoingMessage]:
    """Return the records of a columnar message as one message each, with the sources and watermarks of its rows.

    When the dead letter of a columnar message is replayed this way, a record that kills its reader costs no other record. The
    result is empty if no record can be read.
    """
    return [
        OutgoingMessage(decoded.lines[row], key, headers)
        for decoded in decode_messages([message], settings)
        for row, key, headers in zip(
            decoded.row.tolist(),
            map(str.encode, decoded.events["principal"]),
            _row_headers(decoded),
            strict=True,
        )
    ]


def _row_headers(decoded: DecodedMessages) -> list[Headers]:
    """Return the headers of each event; empty if its message did not name its source."""
    if decoded.origins is None:
        return [()] * len(decoded.events)
    names = [f"{name}/0".encode() for name in decoded.origins.sources]
    rows = zip(decoded.origins.source.tolist(), decoded.origins.watermarks.tolist(), strict=True)
    return [(("source", names[code]), ("watermark", b"%d" % mark)) for code, mark in rows]


def encoded_size(outgoing: OutgoingMessage) -> int:
    """Return the largest number of bytes that a message may take."""
    headers = sum(len(name) + len(value or b"") + 4 for name, value in outgoing.headers)
    return len(outgoing.value or b"") + len(outgoing.key or b"") + headers + MESSAGE_OVERHEAD


def _source_header(message: Message) -> bytes:
    return f"{message.topic}/{message.partition}/{message.offset}".encode()
