"""The topics that the settings name: made where they are not there, grown where they are small, listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from fingerprint.adapters.system import SystemClock
from fingerprint.compute.hashing import VIRTUAL_PARTITIONS
from fingerprint.core.alert import Away, FingerprintError
from fingerprint.core.ports import Clock
from fingerprint.core.ports.topics import Topic, Topics
from fingerprint.core.settings import Kafka, Settings
from pipelines.runtime import wiring

T = TypeVar("T")
DAY_MS = 24 * 3600 * 1000
APPENDED = "LogAppendTime"  # whoever may send to the raw topic must not choose when that was
FRAME_BYTES = 64 << 10  # of a batch beside its message: its own head, the message's headers
PAUSE = 1.0  # seconds between two tries at a broker that is starting
RULE = (
    "more partitions would move principals away from their state. Stop ingest, let the stream read to the end, stop it, "
    "run `fingerprint topics create --partitions {partitions} --grow`, start the stream, start ingest"
)


class Wish(NamedTuple):
    """What a run of `topics create` asks for."""

    partitions: int = 4  # of the topics that carry the traffic
    replicas: int | None = None
    grow: bool = False  # the events topic too


def run_create(settings: Settings, wish: Wish, wait: float) -> list[dict[str, Any]]:
    """`fingerprint topics create`: what became of each topic, as `--json` prints it."""
    wanted = topics_of(settings.kafka, wish)
    return patiently(lambda: _create(settings.kafka, wanted, wish.grow), wait, SystemClock())


def run_list(settings: Settings) -> list[dict[str, Any]]:
    """`fingerprint topics list`: each topic of the settings as it is."""
    names = [each.name for each in topics_of(settings.kafka, Wish())]
    with wiring.topics(settings.kafka) as topics:
        found = topics.found(names)
    return [_row(found.get(name, Topic(name, 0))) for name in names]


def topics_of(kafka: Kafka, wish: Wish) -> list[Topic]:
    """All that programs read and write, as they are made. FingerprintError for partitions that state cannot be cut into."""
    if wish.partitions < 1 or VIRTUAL_PARTITIONS % wish.partitions:
        raise FingerprintError(
            f"--partitions is {wish.partitions}: a scorer's state can be cut into 1, 2, 4, ... {VIRTUAL_PARTITIONS}"
        )
    traffic = [kafka.raw, kafka.events, kafka.alerts, kafka.votes]
    beside = [kafka.notices, kafka.raw + kafka.dlq_suffix, kafka.events + kafka.dlq_suffix]
    largest = kafka.message_bytes + FRAME_BYTES
    kept = {kafka.events: round(kafka.retention_days * DAY_MS)}
    counts = dict.fromkeys(beside, 1) | dict.fromkeys(traffic, wish.partitions)
    names = dict.fromkeys([*traffic, *beside])  # in this order, each once
    by_broker = {kafka.raw: APPENDED}
    return [
        Topic(name, counts[name], wish.replicas, kept.get(name), largest, by_broker.get(name))
        for name in names
    ]


def patiently(work: Callable[[], T], wait: float, clock: Clock) -> T:
    """What the work gives; begun anew while the broker is away, for `wait` seconds."""
    begun = clock.now()
    while True:
        try:
            return work()
        except Away:
            if (clock.now() - begun).total_seconds() >= wait:
                raise
            clock.wait(PAUSE)


def _create(kafka: Kafka, wanted: list[Topic], grow: bool) -> list[dict[str, Any]]:
    with wiring.topics(kafka) as topics:
        return create(topics, wanted, set() if grow else {kafka.events})


def create(topics: Topics, wanted: Iterable[Topic], guarded: set[str]) -> list[dict[str, Any]]:
    """Make and grow; a topic that is guarded does not grow. What was done before changes nothing when it is done again."""
    return [_one(topics, topic, topic.name in guarded) for topic in wanted]


def _one(topics: Topics, wanted: Topic, guarded: bool) -> dict[str, Any]:
    if topics.make(wanted):
        return {**_row(wanted), "did": "made", "note": ""}
    there = topics.found([wanted.name])[wanted.name]
    if there.partitions >= wanted.partitions:
        return {**_row(there), "did": "kept", "note": _short(there, wanted)}
    if guarded:
        return {**_row(there), "did": "kept", "note": RULE.format(partitions=wanted.partitions)}
    topics.grow(wanted.name, wanted.partitions)
    grown = there._replace(partitions=wanted.partitions)
    return {**_row(grown), "did": f"grew from {there.partitions}", "note": _short(there, wanted)}


def _short(there: Topic, wanted: Topic) -> str:
    """Where a topic that somebody else made holds less than programs need: said, and left to them."""
    said = []
    if (
        wanted.retention_ms
        and there.retention_ms is not None
        and 0 <= there.retention_ms < wanted.retention_ms
    ):
        said.append(
            f"holds messages for {_days(there):g} days, {_days(wanted):g} are wanted: set its retention.ms"
        )
    if (
        wanted.message_bytes
        and there.message_bytes is not None
        and there.message_bytes < wanted.message_bytes
    ):
        said.append(
            f"takes {there.message_bytes:,} bytes at once, {wanted.message_bytes:,} are wanted: set its max.message.bytes"
        )
    if wanted.stamped and there.stamped is not None and there.stamped != wanted.stamped:
        said.append(f"believes its producers' timestamps: set its message.timestamp.type to {wanted.stamped}")
    return "; ".join(said)


def _row(topic: Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partitions": topic.partitions,
        "replicas": topic.replicas,
        "retention_days": _days(topic),
        "message_bytes": topic.message_bytes,
    }


def _days(topic: Topic) -> float | None:
    """None: the broker's default, or a folder's; -1: for ever."""
    held = topic.retention_ms
    return held if held is None or held < 0 else round(held / DAY_MS, 3)


def print_created(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        print(f"{row['did']:<12} {row['topic']:<26} {_partitions(row['partitions'])}")
    for row in rows:
        if row["note"]:
            print(f"{row['topic']}: {row['note']}")


def print_topics(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        print(f"{row['topic']:<26} {_partitions(row['partitions']):<14} {_held(row)}".rstrip())


def _partitions(count: int) -> str:
    return (
        f"{count} partition{'s' * (count != 1)}"
        if count
        else "not there: `fingerprint topics create` makes it"
    )


def _held(row: dict[str, Any]) -> str:
    """What only a server says."""
    if row["replicas"] is None:
        return ""
    days = "for ever" if row["retention_days"] < 0 else f"for {row['retention_days']:g} days"
    return f"{row['replicas']} times, {days}, batches up to {row['message_bytes']:,} bytes"
