"""Re-keying: key records by their principal, and make dead letters of messages that cannot be read.

Example:
    >>> record = b'{"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:18Z", "userIdentity": {"type": "Root"}}'
    >>> [batch] = Rekeyer(Settings()).rekey([Message("raw", 3, 17, value=record, timestamp=1688989400000)])
    >>> batch.records[0].key, batch.records[0].headers
    (b'unknown:root', (('source', b'raw/3/17'), ('watermark', b'1688989338000')))

`event_messages` builds the messages of the events topic, of one record or of many.

A record that is dated after the arrival of its message is not sent on, because its time would move the clocks of its readers
(`arrival`). Its message becomes a dead letter.

A *dead letter* is the original message, byte for byte, with the reason in its headers. A message becomes a dead letter if one of
its records cannot be read. Its other records are sent nevertheless, and again if the letter is replayed. If a message is too
large to be sent again, its letter has no value and says where the message is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Longs
from fingerprint.compute.dictionary import encode_few
from fingerprint.core.alert import Reject
from fingerprint.core.ports.message_stream import Headers, Message, Partition
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Ingest, Settings
from fingerprint.core.settings.streaming import DEAD_LETTER_WINDOW
from fingerprint.sources import arrival
from fingerprint.sources.arrival import Now, wall_clock_ms
from fingerprint.sources.decode import DecodedMessages, decode_messages, message_number
from fingerprint.streaming.event_messages import EventMessages, OutgoingMessage, encoded_size

ORIGIN_HEADER_COUNT = 4  # the first headers of a dead letter: topic, partition, offset, reason
_REASON_LENGTH = 500


class RekeyedBatch(NamedTuple):
    """Records and dead letters of the messages `begin` to `end` of a poll.

    - `completed_until`: the first message that is not completely in the batch, which may have a part of a large message.
    - `record_sources`, `dead_letter_sources`: ascending indices, in the poll, of the messages behind `records` and
      `dead_letters`; for a columnar message, of the first one behind it.
    - `skipped`: number of records that are no event by design; `empty`: number of messages without content; `future_dated`:
      number of records dated after the arrival of their message, which are not sent on.
    """

    begin: int
    end: int
    completed_until: int
    records: list[OutgoingMessage]
    record_sources: NDArray[np.int64]
    dead_letters: list[OutgoingMessage]
    dead_letter_sources: NDArray[np.int64]
    skipped: int
    empty: int
    future_dated: int

    def truncated_at(self, end: int) -> RekeyedBatch:
        """Return the part that came from messages before `end`; the counts stay those of the whole batch."""
        records = int(np.searchsorted(self.record_sources, end))
        dead = int(np.searchsorted(self.dead_letter_sources, end))
        return self._replace(
            end=end,
            completed_until=min(self.completed_until, end),
            records=self.records[:records],
            record_sources=self.record_sources[:records],
            dead_letters=self.dead_letters[:dead],
            dead_letter_sources=self.dead_letter_sources[:dead],
        )


class Rekeyer:
    """Keys the records of messages of any partitions, and tracks the watermark of each partition."""

    def __init__(
        self, settings: Settings, now: Now = wall_clock_ms, partitions: Callable[[], int] = lambda: 0
    ) -> None:
        """`partitions` gives the number of partitions of the events topic, 0 while it is unknown."""
        self.settings, self.now = settings, now
        self.event_messages = EventMessages(settings, partitions)
        self.dead_letters = DeadLetterBuilder(settings.kafka.max_request_size)
        self.watermarks: dict[Partition, int] = {}  # ms since the epoch

    def rekey(self, messages: Sequence[Message]) -> Iterator[RekeyedBatch]:
        """Yield batches that together have all the messages, in order. No bytes of a message make it raise an error."""
        for decoded in decode_messages(messages, self.settings):
            yield self._build_batch(messages, decoded)

    def reject(self, message: Message, reason: str) -> RekeyedBatch:
        """Return a message as a dead letter, without reading it."""
        dead = dead_letter(message, reason, 1, self.settings.kafka.max_request_size)
        return RekeyedBatch(0, 1, 1, [], np.zeros(0, np.int64), [dead], np.zeros(1, np.int64), 0, 0, 0)

    def forget_partitions(self, partitions: Iterable[Partition]) -> None:
        """Forget the watermarks of revoked partitions."""
        for partition in partitions:
            self.watermarks.pop(partition, None)

    def _build_batch(self, messages: Sequence[Message], decoded: DecodedMessages) -> RekeyedBatch:
        decoded, future = self._drop_future_dated(messages, decoded)
        marks = self._advance_watermarks(messages, decoded)
        sent = self.event_messages.build(messages, decoded, marks)
        dead, dead_from = self.dead_letters.build(messages, decoded, decoded.rejects + sent.rejects)
        return RekeyedBatch(
            decoded.begin,
            decoded.end,
            decoded.complete_until,
            sent.messages,
            sent.sources,
            dead,
            dead_from,
            decoded.skipped,
            sum(not message.value for message in messages[decoded.begin : decoded.end]),
            future,
        )

    def _drop_future_dated(
        self, messages: Sequence[Message], decoded: DecodedMessages
    ) -> tuple[DecodedMessages, int]:
        timestamps = np.array([message.timestamp for message in messages], np.int64)
        came = arrival.arrival_times_ms(timestamps, self.now())[decoded.source]
        return drop_future_dated(decoded, came)

    def _advance_watermarks(self, messages: Sequence[Message], decoded: DecodedMessages) -> Longs:
        """Return the watermark of each record's source partition up to that record, ms (n,)."""
        at, source = decoded.times_ms, decoded.source
        of_message, owners = encode_few([(message.topic, message.partition) for message in messages])
        owner = of_message[source]
        marks = np.zeros(len(at), np.int64)
        for code, (topic, number) in enumerate(owners):
            partition = Partition(topic, number)
            here = owner == code
            marks[here] = running_watermark(at[here], self.watermarks.get(partition, 0))
            if here.any():
                self.watermarks[partition] = int(marks[here][-1])
        return marks


class DeadLetterLimit:
    """A limit that stops a bad deployment from draining the topic into dead letters.

    It is reached if, among the last DEAD_LETTER_WINDOW messages, at least `max_dead_letters`, and more than a share
    `max_dead_letter_share`, became dead letters.
    """

    def __init__(self, settings: Ingest) -> None:
        self.settings = settings
        self.recent = np.zeros(0, bool)

    def exceeded_at(self, is_dead: NDArray[np.bool_]) -> int | None:
        """Return the index of the message that reaches the limit, None if none does; `is_dead` has a flag for each message."""
        window = DEAD_LETTER_WINDOW
        seen = np.concatenate([self.recent, is_dead])
        total = np.cumsum(seen)
        before = np.concatenate([np.zeros(window, np.int64), total])[: len(total)]
        size = np.minimum(np.arange(1, len(seen) + 1), window)
        count = total - before
        past = (count >= self.settings.max_dead_letters) & (
            count > self.settings.max_dead_letter_share * size
        )
        found = np.flatnonzero(past[len(self.recent) :])
        self.recent = seen[-window:]
        return int(found[0]) if len(found) else None

    def describe(self, source: str, reason: str) -> str:
        """Return the error text for dead letters of `source` that reach the limit; `reason` is the last one's."""
        return (
            f"{self.settings.max_dead_letters:,} or more of the last {DEAD_LETTER_WINDOW:,} messages of {source} "
            f"could not be read (the last: {reason}); mend what sends them, look at `fingerprint dead-letters list`, "
            "then start again, or raise ingest.max_dead_letters"
        )


def drop_future_dated(decoded: DecodedMessages, arrival_times: Longs) -> tuple[DecodedMessages, int]:
    """Return decoded messages without records dated after their arrival (n,), in ms, and the number of these.

    Each of them becomes a reject of its message.
    """
    future = arrival.future_dated_mask(decoded.times_ms, arrival_times)
    if not future.any():
        return decoded, 0
    rejects = [Reject("", str(each), arrival.FUTURE_REASON) for each in decoded.source[future].tolist()]
    return decoded.without_events(future)._replace(rejects=decoded.rejects + rejects), int(future.sum())


def running_watermark(at: Longs, initial: int) -> Longs:
    """Return the latest event time up to each record of one source (n,), `initial` before the first."""
    return np.maximum.accumulate(np.maximum(at, initial))


class DeadLetterBuilder:
    """Builds one dead letter for a bad message, however many of its records cannot be read, in however many batches."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes  # a larger message leaves a letter without its value
        # first reason, and how many, of the message that goes on in the next batch
        self.unfinished: tuple[str, int] | None = None

    def build(
        self, messages: Sequence[Message], decoded: DecodedMessages, rejects: Sequence[Reject]
    ) -> tuple[list[OutgoingMessage], NDArray[np.int64]]:
        """Return the letters of messages that end in this batch, and the index of the message behind each.

        The position of a reject begins with the index of its message.
        """
        reasons = {decoded.begin: self.unfinished} if self.unfinished else {}
        for reject in rejects:
            place = message_number(reject.position)
            first, count = reasons.get(place, (reject.reason, 0))
            reasons[place] = first, count + reject.count
        self.unfinished = reasons.pop(decoded.end - 1, None) if decoded.is_partial else None
        numbers = sorted(reasons)
        letters = [dead_letter(messages[each], *reasons[each], self.max_bytes) for each in numbers]
        return letters, np.array(numbers, np.int64)


def dead_letter(message: Message, reason: str, count: int, max_bytes: int) -> OutgoingMessage:
    """Return the dead letter of a message in which `count` items could not be read, the first one for this reason."""
    more = f" (and {count - 1:,} more in this message)" if count > 1 else ""
    reason = printable(reason)[:_REASON_LENGTH] + more
    whole = OutgoingMessage(message.value, message.key, (*_origin_headers(message, reason), *message.headers))
    if encoded_size(whole) <= max_bytes:
        return whole
    reason += (
        f"; its {len(message.value or b''):,} bytes are too many for a letter, find them where it came from"
    )
    return OutgoingMessage(None, None, _origin_headers(message, reason))


def letter_origin(letter: OutgoingMessage | Message) -> dict[str, str]:
    """Return `topic`, `partition` and `offset` of the message behind a dead letter, and the `reason`, as texts.

    They are the first headers of the letter. The message's own headers, of any name and bytes, follow them and are not read.
    """
    origin = letter.headers[:ORIGIN_HEADER_COUNT]
    return {name: (value or b"").decode(errors="replace") for name, value in origin}


def _origin_headers(message: Message, reason: str) -> Headers:
    return (
        ("topic", message.topic.encode()),
        ("partition", b"%d" % message.partition),
        ("offset", b"%d" % message.offset),
        ("reason", reason.encode(errors="replace")),
    )
