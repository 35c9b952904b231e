"""Consumer, producer and topic admin of the broker in memory.

Example:
    >>> broker = MemoryBroker()
    >>> settings = Kafka(**on(broker), group_id="scorers")
    >>> with MemoryProducer(settings) as producer:
    ...     producer.send("events", b"{}", key=b"alice")

Programs find them by the setting `kafka.client` (CLIENT), also those that a test starts.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fingerprint.adapters.kafka.base import FETCH_MAX_BYTES
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import (
    NO_METADATA,
    Consumer,
    Headers,
    Message,
    Offsets,
    OnAssigned,
    OnRevoked,
    Partition,
    Producer,
)
from fingerprint.core.ports.topics import TopicAdmin, TopicSpec
from fingerprint.core.settings import Kafka
from tests.support.kafka_partition import kafka_partition
from tests.support.memory_broker import MemoryBroker, OffsetOutOfRange, RemoteBroker, connect

CLIENT = f"{__name__}:client_classes"
POLL_PAUSE_SECONDS = 0.005
REBALANCE_SECONDS = 0.1  # between two looks at the group


def on(broker: MemoryBroker) -> dict[str, Any]:
    """Return the settings of a program that uses this broker."""
    return {"client": CLIENT, "bootstrap_servers": (broker.address,)}


def client_classes() -> tuple[type[Consumer], type[Producer], type[TopicAdmin]]:
    """Return what `kafka.client` asks for."""
    return MemoryConsumer, MemoryProducer, MemoryTopicAdmin


class _Connected:
    """A client's connection."""

    def __init__(self, settings: Kafka) -> None:
        self._settings = settings
        self._broker = connect(settings.bootstrap_servers[0])
        self._closed = False

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions. FingerprintError if there is no such topic."""
        if count := self._broker.partition_count(topic):
            return int(count)
        raise FingerprintError(f"there is no topic {topic}: create it first")

    def _disconnect(self) -> None:
        if isinstance(self._broker, RemoteBroker):
            self._broker.disconnect()


class MemoryProducer(_Connected, Producer):
    """A `ports.message_stream.Producer`. What `send` has taken has arrived."""

    def __init__(self, settings: Kafka) -> None:
        super().__init__(settings)
        self._counts: dict[str, int] = {}
        self._round_robin = 0

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> None:
        if len(value or b"") + len(key or b"") > self._settings.max_request_size:
            raise FingerprintError("a message is larger than kafka.max_request_size")
        self._broker.append(Partition(topic, self._choose(topic, key)), value, key, headers)

    def _choose(self, topic: str, key: bytes | None) -> int:
        count = self._counts.get(topic) or self.partition_count(topic)
        self._counts[topic] = count
        self._round_robin += key is None
        return self._round_robin % count if key is None else kafka_partition(key, count)

    def flush(self, timeout_seconds: float | None = None) -> None:
        """Do nothing."""

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._disconnect()


class MemoryConsumer(_Connected, Consumer):
    """A `ports.message_stream.Consumer`."""

    def __init__(self, settings: Kafka, max_partition_fetch_bytes: int | None = None) -> None:
        super().__init__(settings)
        self._group = settings.group_id
        self._session = self._broker.open_session()
        self._name = settings.group_instance_id or self._session
        self._on_assigned: OnAssigned | None = None
        self._on_revoked: OnRevoked | None = None
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._generation = -1
        self._next_rebalance = 0.0

    def subscribe(
        self,
        topics: Sequence[str],
        on_assigned: OnAssigned | None = None,
        on_revoked: OnRevoked | None = None,
    ) -> None:
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._broker.subscribe(self._group, self._name, self._session, tuple(topics))

    def poll(
        self, timeout_seconds: float, max_messages: int | None = None, max_bytes: int | None = None
    ) -> list[Message]:
        deadline = time.monotonic() + timeout_seconds
        while True:
            self._rebalance()
            messages = self._fetch(
                max_messages or self._settings.max_poll_records, max_bytes or FETCH_MAX_BYTES
            )
            if messages or time.monotonic() >= deadline:
                return messages
            time.sleep(POLL_PAUSE_SECONDS)

    def _rebalance(self) -> None:
        """Give back what falls to others, then take what falls to this member and is free."""
        if time.monotonic() < self._next_rebalance:
            return
        self._next_rebalance = time.monotonic() + REBALANCE_SECONDS
        lost, wanted = self._broker.rebalance(self._group, self._name, self._session, set(self._positions))
        self._revoke(lost)
        if wanted:
            self._assign(wanted)

    def _revoke(self, partitions: set[Partition]) -> None:
        if not partitions:
            return
        try:
            if self._on_revoked:
                self._on_revoked(partitions)
        finally:
            for each in partitions:
                del self._positions[each]
            self._paused -= partitions
            self._broker.release(self._group, self._session, partitions)

    def _assign(self, wanted: set[Partition]) -> None:
        taken, generation = self._broker.acquire(self._group, self._session, wanted)
        if not taken:
            return
        self._generation = generation
        committed = {each: at for each, at in self.committed(taken).items() if at is not None}
        self._positions |= self.beginning_offsets(taken) | committed
        self._positions |= (self._on_assigned and self._on_assigned(taken)) or {}

    def _fetch(self, max_messages: int, max_bytes: int) -> list[Message]:
        wanted = {each: at for each, at in self._positions.items() if each not in self._paused}
        try:
            messages = self._broker.fetch(wanted, max_messages, max_bytes) if wanted else []
        except OffsetOutOfRange as error:
            partition, beginning, end = error.args
            if self._settings.auto_offset_reset == "none":
                raise FingerprintError(
                    f"messages were lost: {partition.label} holds {beginning} to {end}, not {wanted[partition]}; "
                    "set kafka.auto_offset_reset = earliest to go on with what is left"
                ) from None
            self._positions[partition] = beginning
            return self._fetch(max_messages, max_bytes)
        after = {message.source_partition: message.offset + 1 for message in messages}
        for each, offset in after.items():  # the next poll begins with another partition
            del self._positions[each]
            self._positions[each] = offset
        return list(messages)

    def assignment(self) -> frozenset[Partition]:
        return frozenset(self._positions)

    def generation(self) -> int:
        return self._generation

    def seek(self, partition: Partition, offset: int) -> None:
        self._positions[partition] = offset

    def pause(self, partitions: Collection[Partition]) -> None:
        self._paused |= set(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        self._paused -= set(partitions)

    def commit(self, offsets: Offsets, metadata: Mapping[Partition, str] = NO_METADATA) -> None:
        self._broker.commit(self._group, self._session, dict(offsets), dict(metadata))

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        found = self.committed_metadata(partitions)
        return {each: found[each][0] if each in found else None for each in partitions}

    def committed_metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        return dict(self._broker.committed(self._group, list(partitions)))

    def beginning_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return dict(self._broker.beginning_offsets(list(partitions)))

    def end_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return dict(self._broker.end_offsets(list(partitions)))

    def offsets_for_time(self, partitions: Collection[Partition], milliseconds: int) -> dict[Partition, int]:
        return dict(self._broker.offsets_for_time(list(partitions), milliseconds))

    def lag(self, timeout_seconds: float | None = None) -> dict[Partition, int]:
        return {each: end - self._positions[each] for each, end in self.end_offsets(self._positions).items()}

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._revoke(set(self._positions))
        finally:
            self._broker.end_session(self._session)
            self._disconnect()


class MemoryTopicAdmin(_Connected, TopicAdmin):
    """A `ports.topics.TopicAdmin`."""

    def describe(self, names: Collection[str]) -> dict[str, TopicSpec]:
        counts = {name: self._broker.partition_count(name) for name in names}
        return {name: TopicSpec(name, count) for name, count in counts.items() if count}

    def create(self, topic: TopicSpec) -> bool:
        if topic.name in self.describe([topic.name]):
            return False
        self._broker.create_topic(topic.name, topic.partitions)
        return True

    def add_partitions(self, name: str, partitions: int) -> None:
        there = self.partition_count(name)
        if partitions <= there:
            raise FingerprintError(f"topic {name} has {there} partitions, and cannot be given {partitions}")
        self._broker.create_topic(name, partitions)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._disconnect()
