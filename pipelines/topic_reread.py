"""A topic read again from where it begins to where it ended at the start, beside whoever else reads it.

Nobody's place moves by it: the reader is the only member of a group of its own, which commits nothing and is gone when it leaves.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime

from fingerprint.adapters.event_spool import EventSpool
from fingerprint.core.alert import FingerprintError, Reject
from fingerprint.core.ports import Message, Partition
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import KEY_DAY_MARGIN
from fingerprint.sources import arrival
from fingerprint.sources import decode as messages_
from fingerprint.streaming import routing
from fingerprint.streaming.bounded_read import poll_until_end
from pipelines.cli.console import Progress
from pipelines.runtime import wiring


def read_topic(topic: str, history: EventSpool, settings: Settings, progress: Progress) -> int:
    """All events of `topic` to `history`; how many messages there were. FingerprintError where there is no such topic.

    Events dated past the arrival of their message are counted and left out. With a span that begins somewhere, messages are
    passed over that were sent a day before it or earlier: an event is sent after it happened.
    """
    count = 0
    polls, bounds = reread_messages(topic, settings, history.span.since), history.backend.batch_bytes
    for messages in _coalesce_polls(polls, settings.reading.batch_records, bounds):
        count += len(messages)
        for piece in messages_.decode_messages(messages, settings, history.backend):
            came = routing.arrival_times(
                messages, piece, settings.reading.max_future_seconds, arrival.wall_clock_ms()
            )
            history.add_events(
                piece,
                [_at_topic_position(reject, messages) for reject in piece.rejects],
                came.is_future_dated,
            )
        progress(f"reading {topic}", count)
    return count


def reread_messages(topic: str, settings: Settings, since: datetime | None = None) -> Iterator[list[Message]]:
    """The messages of a topic up to where it ended at the start, in order within each partition; none that were sent more than
    a day before `since`. What retention deletes meanwhile is passed over."""
    alone = settings.kafka.model_copy(update={"group_instance_id": None, "auto_offset_reset": "earliest"})
    with wiring.open_consumer(alone, f"train-{uuid.uuid4().hex[:12]}") as consumer:
        homes = [Partition(topic, number) for number in range(consumer.partition_count(topic))]
        ends = consumer.end_offsets(homes)
        begin = int((since - KEY_DAY_MARGIN).timestamp() * 1000) if since else None
        consumer.subscribe(
            [topic], lambda ours: None if begin is None else consumer.offsets_for_time(ours, begin)
        )
        yield from poll_until_end(consumer, end_offsets=ends)
        if (had := len(consumer.assignment())) < len(homes):
            raise FingerprintError(
                f"of the {len(homes)} partitions of {topic} only {had} were read: start again when the broker is well"
            )


def _coalesce_polls(polls: Iterator[list[Message]], most: int, most_bytes: int) -> Iterator[list[Message]]:
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


def _at_topic_position(reject: Reject, messages: list[Message]) -> Reject:
    """The same, by its place in the topic: `events/3`, `17/2` for the second record in message 17."""
    number, _, rest = reject.position.partition("/")
    message = messages[int(number)]
    return Reject(
        message.source_partition.label,
        f"{message.offset}/{rest}" if rest else str(message.offset),
        reject.reason,
    )
