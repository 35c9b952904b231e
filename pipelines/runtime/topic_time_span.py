"""Measure how many days of events a topic has, by a few messages at both ends of each partition.

No committed offset changes: the reader is the only member of a consumer group of its own, which commits nothing.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from fingerprint.core.ports.message_stream import Consumer, Message, Offsets, Partition
from fingerprint.core.settings import Settings
from fingerprint.sources import decode as messages_
from fingerprint.streaming.bounded_read import EndOffsets
from fingerprint.training import schedule
from pipelines.runtime import wiring

SAMPLE = 20  # events at each end of a partition, from as many messages; a message has one record, or a table of up to a thousand
MAX_FETCH_BYTES = 256 << 10  # of a partition at a time: a few messages, without the megabytes after them


def topic_span_days(topic: str, settings: Settings, stop_requested: Callable[[], bool]) -> float | None:
    """Return the days of event time in a topic; None if it has no readable event.

    Raises FingerprintError if there is no such topic, or the broker does not answer.
    """
    alone = settings.kafka.model_copy(update={"group_instance_id": None, "auto_offset_reset": "earliest"})
    with wiring.open_consumer(alone, f"retrain-{uuid.uuid4().hex[:12]}", MAX_FETCH_BYTES) as consumer:
        partitions = [Partition(topic, number) for number in range(consumer.partition_count(topic))]
        begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        consumer.subscribe([topic], lambda assigned: {each: begins[each] for each in assigned})
        heads = {each: min(begins[each] + SAMPLE, ends[each]) for each in partitions}
        oldest = _sample_per_partition(_read_until(consumer, heads, stop_requested), slice(SAMPLE))
        tails = {
            each: max(ends[each] - SAMPLE, begins[each]) for each in consumer.assignment() & {*partitions}
        }
        for partition, offset in tails.items():
            consumer.seek(partition, offset)
        newest = _sample_per_partition(_read_until(consumer, ends, stop_requested), slice(-SAMPLE, None))
    return schedule.topic_span_days(
        [times[:SAMPLE] for times in _event_times(oldest, settings)],
        [times[-SAMPLE:] for times in _event_times(newest, settings)],
    )


def _read_until(consumer: Consumer, goals: Offsets, stop_requested: Callable[[], bool]) -> list[Message]:
    """Return the next messages of each partition, at least up to the offset of its goal."""
    end, read = EndOffsets(consumer, end_offsets=goals), list[Message]()
    while not end.is_reached() and not stop_requested():
        messages = consumer.poll(0.2)
        end.observe(messages)
        read += messages
    return read


def _sample_per_partition(messages: Sequence[Message], which: slice) -> list[Message]:
    """Return the messages of each partition at `which`: the first or the last ones."""
    found: dict[Partition, list[Message]] = defaultdict(list)
    for message in messages:
        found[message.source_partition].append(message)
    return [message for each in found.values() for message in each[which]]


def _event_times(messages: Sequence[Message], settings: Settings) -> Collection[list[datetime]]:
    """Return the times of the events in the messages, one list for each partition."""
    found: dict[Partition, list[datetime]] = defaultdict(list)
    for decoded in messages_.decode_messages(messages, settings):
        for number, at in zip(decoded.source.tolist(), decoded.events["event_time"], strict=True):
            found[messages[number].source_partition].append(at.to_pydatetime())
    return found.values()
