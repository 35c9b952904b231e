"""The topics of the settings: create missing ones, grow small ones, list them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from fingerprint.adapters.system import SystemClock
from fingerprint.core.errors import FingerprintError, ServerUnavailable
from fingerprint.core.ports.clock import Clock
from fingerprint.core.ports.topics import DEAD_LETTER_SUFFIX, VIRTUAL_PARTITIONS, TopicAdmin, TopicSpec
from fingerprint.core.settings import Kafka, Settings
from pipelines.runtime import wiring

T = TypeVar("T")
DAY_MS = 24 * 3600 * 1000
LOG_APPEND_TIME = "LogAppendTime"  # producers of the raw topic must not choose their arrival time
RECORD_OVERHEAD_BYTES = 64 << 10  # of a batch, in addition to its message: the headers of both
RETRY_SECONDS = 1.0  # between two tries to reach a broker that is starting
GROW_REFUSAL = (
    "more partitions would move principals away from their state. Stop ingest, let the stream read to the end, stop it, "
    "run `fingerprint topics create --partitions {partitions} --grow`, start the stream, start ingest"
)


class TopicOptions(NamedTuple):
    """Options of `topics create`."""

    partitions: int = 4  # of the topics that carry the traffic
    replicas: int | None = None
    grow: bool = False  # whether the events topic may grow, too


def create_topics(settings: Settings, options: TopicOptions, wait: float) -> list[dict[str, Any]]:
    """Create and grow topics; return what was done to each: the figures of `topics create --json`."""
    required = required_topics(settings.kafka, options)
    return retry_while_unavailable(
        lambda: _create_all(settings.kafka, required, options.grow), wait, SystemClock()
    )


def list_topics(settings: Settings) -> list[dict[str, Any]]:
    """Return the current state of each topic of the settings: the figures of `topics list --json`."""
    names = [each.name for each in required_topics(settings.kafka, TopicOptions())]
    with wiring.open_topic_admin(settings.kafka) as topics:
        found = topics.describe(names)
    return [_topic_row(found.get(name, TopicSpec(name, 0))) for name in names]


def required_topics(kafka: Kafka, options: TopicOptions) -> list[TopicSpec]:
    """Return all topics that programs read and write, with the properties that they are created with.

    Raises FingerprintError for a number of partitions into which state cannot be split.
    """
    if options.partitions < 1 or VIRTUAL_PARTITIONS % options.partitions:
        raise FingerprintError(
            f"--partitions is {options.partitions}: a scorer's state can be cut into 1, 2, 4, ... {VIRTUAL_PARTITIONS}"
        )
    traffic = [kafka.raw_topic, kafka.events_topic, kafka.alerts_topic, kafka.votes_topic]
    others = [
        kafka.feed_gaps_topic,
        kafka.raw_topic + DEAD_LETTER_SUFFIX,
        kafka.events_topic + DEAD_LETTER_SUFFIX,
    ]
    largest = kafka.max_request_size + RECORD_OVERHEAD_BYTES
    kept = {kafka.events_topic: round(kafka.events_retention_days * DAY_MS)}
    counts = dict.fromkeys(others, 1) | dict.fromkeys(traffic, options.partitions)
    names = dict.fromkeys([*traffic, *others])  # in this order, each once
    by_broker = {kafka.raw_topic: LOG_APPEND_TIME}
    return [
        TopicSpec(name, counts[name], options.replicas, kept.get(name), largest, by_broker.get(name))
        for name in names
    ]


def retry_while_unavailable(work: Callable[[], T], timeout_seconds: float, clock: Clock) -> T:
    """Return the result of `work`; repeat it for `timeout_seconds` while the broker is unavailable, and announce the wait once.

    This is a loop of our own instead of `stamina`, because the clock is a port and the wait is announced.
    """
    begun, announced = clock.now(), False
    while True:
        try:
            return work()
        except ServerUnavailable as error:
            if (clock.now() - begun).total_seconds() >= timeout_seconds:
                raise
            if not announced:
                print(
                    f"waiting up to {timeout_seconds:g} s for the broker: {error}",
                    file=sys.stderr,
                    flush=True,
                )
                announced = True
            clock.sleep(RETRY_SECONDS)


def _create_all(kafka: Kafka, required: list[TopicSpec], grow: bool) -> list[dict[str, Any]]:
    with wiring.open_topic_admin(kafka) as topics:
        return create_or_grow(topics, required, set() if grow else {kafka.events_topic})


def create_or_grow(
    topics: TopicAdmin, required: Iterable[TopicSpec], guarded: set[str]
) -> list[dict[str, Any]]:
    """Create missing topics and grow small ones, except `guarded` ones; return what was done. Repeating it changes nothing."""
    return [_create_or_grow_one(topics, topic, topic.name in guarded) for topic in required]


def _create_or_grow_one(topics: TopicAdmin, required: TopicSpec, guarded: bool) -> dict[str, Any]:
    if topics.create(required):
        return {**_topic_row(required), "did": "made", "note": ""}
    there = topics.describe([required.name])[required.name]
    if there.partitions >= required.partitions:
        return {**_topic_row(there), "did": "kept", "note": _shortcomings(there, required)}
    if guarded:
        return {
            **_topic_row(there),
            "did": "kept",
            "note": GROW_REFUSAL.format(partitions=required.partitions),
        }
    topics.add_partitions(required.name, required.partitions)
    grown = there._replace(partitions=required.partitions)
    return {
        **_topic_row(grown),
        "did": f"grew from {there.partitions}",
        "note": _shortcomings(there, required),
    }


def _shortcomings(there: TopicSpec, required: TopicSpec) -> str:
    """Return the properties that programs need and an existing topic lacks; the operator has to change them."""
    notes = []
    if (
        required.retention_ms
        and there.retention_ms is not None
        and 0 <= there.retention_ms < required.retention_ms
    ):
        notes.append(
            f"holds messages for {_retention_days(there):g} days, {_retention_days(required):g} are wanted: set its retention.ms"
        )
    if (
        required.max_message_bytes
        and there.max_message_bytes is not None
        and there.max_message_bytes < required.max_message_bytes
    ):
        notes.append(
            f"takes {there.max_message_bytes:,} bytes at once, {required.max_message_bytes:,} are wanted: "
            "set its max.message.bytes"
        )
    if (
        required.timestamp_type
        and there.timestamp_type is not None
        and there.timestamp_type != required.timestamp_type
    ):
        notes.append(
            f"believes its producers' timestamps: set its message.timestamp.type to {required.timestamp_type}"
        )
    return "; ".join(notes)


def _topic_row(topic: TopicSpec) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partitions": topic.partitions,
        "replicas": topic.replicas,
        "retention_days": _retention_days(topic),
        "message_bytes": topic.max_message_bytes,
    }


def _retention_days(topic: TopicSpec) -> float | None:
    """Return the retention in days; None is the default of the broker, -1 means for ever."""
    held = topic.retention_ms
    return held if held is None or held < 0 else round(held / DAY_MS, 3)


def print_created_topics(rows: list[dict[str, Any]]) -> None:
    """Print which topics were created and which existed."""
    for row in rows:
        print(f"{row['did']:<12} {row['topic']:<26} {_partitions_text(row['partitions'])}")
    for row in rows:
        if row["note"]:
            print(f"{row['topic']}: {row['note']}")


def print_topics(rows: list[dict[str, Any]]) -> None:
    """Print topics, one a line."""
    for row in rows:
        print(f"{row['topic']:<26} {_partitions_text(row['partitions']):<14} {_storage_text(row)}".rstrip())


def _partitions_text(count: int) -> str:
    return (
        f"{count} partition{'s' * (count != 1)}"
        if count
        else "not there: `fingerprint topics create` makes it"
    )


def _storage_text(row: dict[str, Any]) -> str:
    """Return the words for replicas, retention and size of batches; empty if no server told them."""
    if row["replicas"] is None:
        return ""
    days = "for ever" if row["retention_days"] < 0 else f"for {row['retention_days']:g} days"
    return f"{row['replicas']} times, {days}, batches up to {row['message_bytes']:,} bytes"
