"""How many days of events a topic holds, by a look at its ends: a few messages of each partition, never all of it.

Nobody's place moves by it: the reader is the only member of a group of its own, which commits nothing and is gone when it leaves.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from fingerprint.core.ports import Consumer, Message, Offsets, Partition
from fingerprint.core.settings import Settings
from fingerprint.sources import decode as messages_
from fingerprint.streaming.bounded_read import EndOffsets
from fingerprint.training import schedule
from pipelines.runtime import wiring

SAMPLE_MESSAGES = 20  # messages at an end of a partition
MAX_FETCH_BYTES = 256 << 10  # of a partition at a time: a few messages, not megabytes of what follows them


def topic_span_days(topic: str, settings: Settings, asked_to_end: Callable[[], bool]) -> float | None:
    """Of event time; None where the topic holds nothing that can be read. FingerprintError where there is no such topic, or the
    broker does not answer."""
    alone = settings.kafka.model_copy(update={"group_instance_id": None, "auto_offset_reset": "earliest"})
    with wiring.open_consumer(alone, f"retrain-{uuid.uuid4().hex[:12]}", MAX_FETCH_BYTES) as consumer:
        homes = [Partition(topic, number) for number in range(consumer.partition_count(topic))]
        begins, ends = consumer.beginning_offsets(homes), consumer.end_offsets(homes)
        consumer.subscribe([topic], lambda ours: {home: begins[home] for home in ours})
        heads = {home: min(begins[home] + SAMPLE_MESSAGES, ends[home]) for home in homes}
        oldest = _sample_per_partition(_read_until(consumer, heads, asked_to_end), slice(SAMPLE_MESSAGES))
        tails = {
            home: max(ends[home] - SAMPLE_MESSAGES, begins[home]) for home in consumer.assignment() & {*homes}
        }
        for home, offset in tails.items():
            consumer.seek(home, offset)
        newest = _sample_per_partition(
            _read_until(consumer, ends, asked_to_end), slice(-SAMPLE_MESSAGES, None)
        )
    return schedule.topic_span_days(_event_times(oldest, settings), _event_times(newest, settings))


def _read_until(consumer: Consumer, goals: Offsets, asked_to_end: Callable[[], bool]) -> list[Message]:
    """The next messages of each partition, up to its goal at least."""
    end, got = EndOffsets(consumer, end_offsets=goals), list[Message]()
    while not end.is_reached() and not asked_to_end():
        messages = consumer.poll(0.2)
        end.observe(messages)
        got += messages
    return got


def _sample_per_partition(messages: Sequence[Message], which: slice) -> list[Message]:
    """The first or the last of each partition."""
    found: dict[Partition, list[Message]] = defaultdict(list)
    for message in messages:
        found[message.source_partition].append(message)
    return [message for each in found.values() for message in each[which]]


def _event_times(messages: Sequence[Message], settings: Settings) -> Collection[list[datetime]]:
    """When the events in them happened, by partition."""
    found: dict[Partition, list[datetime]] = defaultdict(list)
    for piece in messages_.decode_messages(messages, settings):
        for number, at in zip(piece.source.tolist(), piece.events["event_time"], strict=True):
            found[messages[number].source_partition].append(at.to_pydatetime())
    return found.values()
