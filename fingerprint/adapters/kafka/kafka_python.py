"""The consumer through kafka-python: pure Python, except for its checksum.

Example:
    >>> consumer = KafkaPythonConsumer(settings.kafka)
    >>> consumer.subscribe(["fingerprint.events"])
    >>> messages = consumer.poll(1.0)

`ports.message_stream.Consumer` defines what each method does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import kafka
from kafka import TopicPartition, errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.structs import OffsetAndMetadata

from fingerprint.adapters import retries
from fingerprint.adapters.kafka import base
from fingerprint.adapters.kafka.kafka_python_compat import (
    UNLIMITED,
    CallbackExecutor,
    RebalanceListener,
    is_joining,
    keep_joining,
    tolerate_invalid_header_names,
)
from fingerprint.adapters.kafka.kafka_python_connection import (
    fetch_partition_count,
    kafka_python_options,
    translate_connection_errors,
    translate_kafka_python_errors,
)
from fingerprint.core.ports.message_stream import (
    NO_METADATA,
    Message,
    Offsets,
    OnAssigned,
    OnRevoked,
    Partition,
)
from fingerprint.core.settings import Kafka


class KafkaPythonConsumer(base.BaseConsumer):
    """A `ports.message_stream.Consumer`. Raise FingerprintError if no broker answers or accepts the login."""

    def __init__(self, settings: Kafka, max_partition_fetch_bytes: int | None = None):
        super().__init__(settings)
        self._callback_executor = CallbackExecutor()
        tolerate_invalid_header_names()
        with translate_connection_errors(settings):
            self._client = kafka.KafkaConsumer(**_options(settings, max_partition_fetch_bytes))

    def _translated_errors(self) -> AbstractContextManager[None]:
        return translate_kafka_python_errors(self._settings)

    def _is_transient(self, error: Exception) -> bool:
        """Return whether kafka-python 3.0.12 gave up too early, as it does at the first refused connection."""
        return isinstance(error, errors.RetriableError)

    # --- membership -------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Sequence[str],
        on_assigned: OnAssigned | None = None,
        on_revoked: OnRevoked | None = None,
    ) -> None:
        """Join the group with the next poll."""

        def assigned(partitions: Collection[TopicPartition]) -> None:
            ours = base.to_partitions(partitions)
            given = (on_assigned(ours) if on_assigned else None) or {}
            for partition, offset in self._first_positions(ours, given).items():
                self._client.seek(_to_topic_partition(partition), offset)

        def revoked(partitions: Collection[TopicPartition]) -> None:
            ours = base.to_partitions(partitions)
            self._forget_partitions(ours)
            if on_revoked:
                on_revoked(ours)

        listener = RebalanceListener(self._callback_executor, self._client, assigned, revoked)
        self._client.subscribe(list(topics), listener=listener)
        with translate_kafka_python_errors(self._settings):
            for topic in topics:  # so that a leader knows its topics and need not assign twice
                self._client.partitions_for_topic(topic)

    def generation(self) -> int:
        """Return the generation of the group."""
        return int(self._client.group_metadata().generation_id)

    def close(self) -> None:
        """Revoke the partitions and leave the group."""
        if self._closed:
            return
        self._closed = True
        try:
            self._callback_executor.wait_for_running()
            self._finish_join()
            self._callback_executor.run(
                lambda: self._client.close(autocommit=False, timeout_ms=self._timeout_ms)
            )
        finally:
            self._callback_executor.close()

    def _finish_join(self) -> None:
        deadline = time.monotonic() + self._settings.request_timeout_seconds
        while is_joining(self._client) and time.monotonic() < deadline:
            self._callback_executor.run(lambda: self._client.poll(100, UNLIMITED))
            keep_joining(self._client)

    # --- messages ---------------------------------------------------------------------------------------------------

    def _fetch(self, timeout_seconds: float, max_messages: int) -> None:
        fetched = self._callback_executor.run(lambda: self._poll_once(timeout_seconds))
        keep_joining(self._client)
        for partition, records in fetched.items():
            self._buffer.add(_to_messages(partition, records))

    def _poll_once(self, timeout_seconds: float) -> dict[TopicPartition, list[Any]]:
        """Return the fetched records; none, after a short pause, while the broker is unavailable: a stream polls again."""
        try:
            return dict(self._client.poll(int(timeout_seconds * 1000), UNLIMITED))
        except errors.RetriableError:
            time.sleep(min(timeout_seconds, retries.RETRY_PAUSE_SECONDS))
            return {}

    def _seek_client(self, partition: Partition, offset: int) -> None:
        self._client.seek(_to_topic_partition(partition), offset)

    def _pause_client(self, partitions: Collection[Partition]) -> None:
        self._client.pause(*map(_to_topic_partition, partitions))

    def _resume_client(self, partitions: Collection[Partition]) -> None:
        self._client.resume(*map(_to_topic_partition, partitions))

    # --- offsets ----------------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets, metadata: Mapping[Partition, str] = NO_METADATA) -> None:
        """Store offsets for the group. Raise PartitionNotOwned, RebalanceInProgress."""
        commits = {
            _to_topic_partition(each): OffsetAndMetadata(offset, metadata.get(each, ""), -1)
            for each, offset in offsets.items()
        }
        self._with_retries(lambda: self._client.commit(commits, timeout_ms=self._timeout_ms))

    def committed_metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        """Return the committed offset and its text of each partition that has one."""

        def ask() -> dict[Partition, Any]:
            return {
                each: self._client.committed(
                    _to_topic_partition(each), metadata=True, timeout_ms=self._timeout_ms
                )
                for each in partitions
            }

        found = self._with_retries(ask)
        return {each: (at.offset, at.metadata or "") for each, at in found.items() if at}

    def beginning_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the first offset of each partition that the broker still has."""
        patience = self._settings.request_timeout_seconds
        return self._list_offsets(self._client.beginning_offsets, partitions, patience)

    def offsets_for_time(self, partitions: Collection[Partition], milliseconds: int) -> dict[Partition, int]:
        """Return the offset of the first message of that time or later; the end if there is none."""
        ends = self.end_offsets(partitions)
        if not ends:
            return {}
        times = {_to_topic_partition(each): milliseconds for each in partitions}
        found = self._with_retries(lambda: self._client.offsets_for_times(times, timeout_ms=self._timeout_ms))
        held = {Partition(each.topic, each.partition): at.offset for each, at in found.items() if at}
        return ends | held

    def _fetch_end_offsets(
        self, partitions: Collection[Partition], timeout_seconds: float
    ) -> dict[Partition, int]:
        return self._list_offsets(self._client.end_offsets, partitions, timeout_seconds)

    def _positions(
        self, partitions: Collection[Partition], timeout_seconds: float
    ) -> Mapping[Partition, int]:
        patience = int(timeout_seconds * 1000)
        return {
            each: self._client.position(_to_topic_partition(each), timeout_ms=patience) for each in partitions
        }

    def _list_offsets(
        self, request: Callable[..., Any], partitions: Collection[Partition], timeout_seconds: float
    ) -> dict[Partition, int]:
        if not partitions:
            return {}
        topic_partitions = [_to_topic_partition(each) for each in partitions]
        patience = int(timeout_seconds * 1000)
        found = self._with_retries(lambda: request(topic_partitions, timeout_ms=patience), timeout_seconds)
        return {Partition(each.topic, each.partition): offset for each, offset in found.items()}

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions. Raise FingerprintError without such a topic, or without an answer in time."""
        with translate_connection_errors(self._settings):
            return fetch_partition_count(topic, self._settings)

    @property
    def _timeout_ms(self) -> int:
        return int(self._settings.request_timeout_seconds * 1000)


def _options(settings: Kafka, max_partition_fetch_bytes: int | None) -> dict[str, Any]:
    return {
        **kafka_python_options(settings),
        "group_id": settings.group_id,
        "group_instance_id": settings.group_instance_id,
        "partition_assignment_strategy": [CooperativeStickyAssignor],
        "enable_auto_commit": False,
        "auto_offset_reset": settings.auto_offset_reset,
        "allow_auto_create_topics": False,
        "session_timeout_ms": settings.session_timeout_ms,
        "heartbeat_interval_ms": settings.session_timeout_ms // 10,
        "max_poll_interval_ms": settings.max_poll_interval_ms,
        "fetch_max_wait_ms": base.FETCH_MAX_WAIT_MS,
        "fetch_max_bytes": base.FETCH_MAX_BYTES,
        "max_partition_fetch_bytes": max_partition_fetch_bytes or base.MAX_PARTITION_FETCH_BYTES,
        "metadata_max_age_ms": base.METADATA_MAX_AGE_MS,
    }


def _to_topic_partition(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.number)


def _to_messages(source: TopicPartition, records: Sequence[Any]) -> list[Message]:
    topic, number = source.topic, source.partition
    return [
        Message(topic, number, each.offset, each.key, each.value, tuple(each.headers), each.timestamp)
        for each in records
    ]
