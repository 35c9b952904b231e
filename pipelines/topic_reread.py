"""A topic read again from where it begins to where it ended at the start, beside whoever else reads it.

Nobody's place moves by it: the reader is the only member of a group of its own, which commits nothing and is gone when it leaves.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime

from fingerprint.adapters.event_spool import History
from fingerprint.core.alert import FingerprintError, Reject
from fingerprint.core.ports import Message, Partition
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import MARGIN
from fingerprint.sources import arrival
from fingerprint.sources import decode as messages_
from fingerprint.streaming import routing
from fingerprint.streaming.bounded_read import until_end
from pipelines.cli.console import Progress
from pipelines.runtime import wiring


def read(topic: str, history: History, settings: Settings, progress: Progress) -> int:
    """All events of `topic` to `history`; how many messages there were. FingerprintError where there is no such topic.

    Events dated past the arrival of their message are counted and left out. With a span that begins somewhere, messages are
    passed over that were sent a day before it or earlier: an event is sent after it happened.
    """
    count = 0
    polls, bounds = again(topic, settings, history.span.since), history.backend.piece_bytes
    for messages in _full(polls, settings.reading.batch_records, bounds):
        count += len(messages)
        for piece in messages_.read(messages, settings, history.backend):
            came = routing.arrivals(messages, piece, settings.stream.future_seconds, arrival.wall_clock())
            history.add_piece(piece, [_placed(reject, messages) for reject in piece.rejects], came.future)
        progress(f"reading {topic}", count)
    return count


def again(topic: str, settings: Settings, since: datetime | None = None) -> Iterator[list[Message]]:
    """The messages of a topic up to where it ended at the start, in order within each partition; none that were sent more than
    a day before `since`. What retention deletes meanwhile is passed over."""
    alone = settings.kafka.model_copy(update={"member": None, "lost": "skip"})
    with wiring.consumer(alone, f"train-{uuid.uuid4().hex[:12]}") as consumer:
        homes = [Partition(topic, number) for number in range(consumer.partitions(topic))]
        ends = consumer.end(homes)
        begin = int((since - MARGIN).timestamp() * 1000) if since else None
        consumer.subscribe([topic], lambda ours: None if begin is None else consumer.since(ours, begin))
        yield from until_end(consumer, goals=ends)
        if (had := len(consumer.assignment())) < len(homes):
            raise FingerprintError(
                f"of the {len(homes)} partitions of {topic} only {had} were read: start again when the broker is well"
            )


def _full(polls: Iterator[list[Message]], most: int, most_bytes: int) -> Iterator[list[Message]]:
    """The same messages, at least so many at a time (and `most_bytes` of them, about): a history has a file for each
    batch and span of hours, and a poll may bring few."""
    held: list[Message] = []
    size = 0
    for messages in polls:
        held += messages
        size += sum(len(message.value or b"") for message in messages)
        if len(held) >= most or size >= most_bytes:
            yield held
            held, size = [], 0
    if held:
        yield held


def _placed(reject: Reject, messages: list[Message]) -> Reject:
    """The same, by its place in the topic: `events/3`, `17/2` for the second record in message 17."""
    number, _, rest = reject.position.partition("/")
    message = messages[int(number)]
    return Reject(
        message.home.place, f"{message.offset}/{rest}" if rest else str(message.offset), reject.reason
    )
