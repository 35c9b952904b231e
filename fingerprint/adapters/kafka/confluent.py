"""The consumer through confluent-kafka (librdkafka): several times as fast as kafka-python, and compiled.

Example:
    >>> consumer = ConfluentConsumer(settings.kafka)
    >>> consumer.subscribe(["fingerprint.events"])
    >>> messages = consumer.poll(1.0)

`ports.message_stream.Consumer` defines what each method does.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from operator import itemgetter, methodcaller
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # it is exported

from fingerprint.adapters.kafka import base
from fingerprint.adapters.kafka.confluent_compat import read_generation, read_headers
from fingerprint.adapters.kafka.confluent_connection import (
    TRANSIENT_CODES,
    UNAVAILABLE_CODES,
    ConnectionFailure,
    check_connection,
    librdkafka_options,
    translate_librdkafka_errors,
)
from fingerprint.core.ports.message_stream import (
    NO_METADATA,
    Message,
    Offsets,
    OnAssigned,
    OnRevoked,
    Partition,
    next_offsets,
)
from fingerprint.core.settings import Kafka

MAX_UNPOLLED = 100_000
"""Largest number of messages that were fetched and not polled yet."""
_NOTHING_COMMITTED = confluent_kafka.OFFSET_INVALID
_error = methodcaller("error")


class ConfluentConsumer(base.BaseConsumer):
    """A `ports.message_stream.Consumer`. Raise FingerprintError if no broker answers or accepts the login."""

    def __init__(self, settings: Kafka, max_partition_fetch_bytes: int | None = None):
        super().__init__(settings)
        self._next_offsets: dict[Partition, int] = {}
        self._callback_error: BaseException | None = None
        self._admin: AdminClient | None = None
        failure = ConnectionFailure()
        with translate_librdkafka_errors(settings):
            self._client = confluent_kafka.Consumer(
                _options(settings, max_partition_fetch_bytes) | {"error_cb": failure.on_error}
            )
            check_connection(self._client, settings, failure)

    def _translated_errors(self) -> AbstractContextManager[None]:
        return translate_librdkafka_errors(self._settings)

    def _is_transient(self, error: Exception) -> bool:
        return isinstance(error, KafkaException) and error.args[0].code() in TRANSIENT_CODES

    # --- membership -------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Sequence[str],
        on_assigned: OnAssigned | None = None,
        on_revoked: OnRevoked | None = None,
    ) -> None:
        """Join the group with the next poll."""

        def assigned(_: Any, partitions: list[TopicPartition]) -> None:
            if self._closed:
                self._client.incremental_assign(partitions)  # taken only to be given back at once
                return
            ours = base.to_partitions(partitions)
            with self._deferring_errors():
                given = (on_assigned(ours) if on_assigned and ours else None) or {}
                positions = self._first_positions(ours, given)
                self._next_offsets |= positions
                self._client.incremental_assign(_to_topic_partitions(positions))

        def revoked(_: Any, partitions: list[TopicPartition]) -> None:
            ours = base.to_partitions(partitions)
            known = ours & self._next_offsets.keys()
            self._forget_partitions(ours)
            with self._deferring_errors():
                if on_revoked and known:
                    on_revoked(known)

        self._client.subscribe(list(topics), on_assign=assigned, on_revoke=revoked, on_lost=revoked)

    @contextmanager
    def _deferring_errors(self) -> Iterator[None]:
        """Keep an error of a callback until `poll` or `close` can raise it."""
        try:
            yield
        except BaseException as error:
            self._callback_error = self._callback_error or error

    def _raise_deferred(self) -> None:
        error, self._callback_error = self._callback_error, None
        if error is not None:
            raise error

    def _forget_partitions(self, partitions: Collection[Partition]) -> None:
        super()._forget_partitions(partitions)
        for each in partitions:
            self._next_offsets.pop(each, None)

    def generation(self) -> int:
        """Return the generation of the group."""
        return read_generation(self._client.consumer_group_metadata())

    def close(self) -> None:
        """Revoke the partitions and leave the group."""
        if self._closed:
            return
        self._closed = True
        with translate_librdkafka_errors(self._settings):
            try:  # take the partitions assigned since the last poll, or librdkafka's own `close` may hang
                self._client.consume(MAX_UNPOLLED, 0)
            finally:
                self._client.close()
        self._raise_deferred()

    # --- messages ---------------------------------------------------------------------------------------------------

    def _fetch(self, timeout_seconds: float, max_messages: int) -> None:
        """Wait for one message, then take the available ones: librdkafka would wait for a whole batch or the whole time."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            fetched = self._client.consume(1, max(deadline - time.monotonic(), 0))
            fetched += self._client.consume(max_messages - 1, 0) if fetched and max_messages > 1 else []
            self._raise_deferred()
            failed = [
                each for each, error in zip(fetched, map(_error, fetched), strict=True) if error is not None
            ]
            messages = _to_messages([each for each in fetched if _is_message(each)] if failed else fetched)
            self._buffer.add(messages)
            self._next_offsets |= next_offsets(messages) | _partition_end_offsets(failed)
            if messages or time.monotonic() >= deadline:
                return

    def _seek_client(self, partition: Partition, offset: int) -> None:
        self._next_offsets[partition] = offset
        (there,) = _to_topic_partitions({partition: offset})
        self._client.incremental_unassign([there])
        self._client.incremental_assign([there])
        if partition in self._paused:
            self._client.pause([there])

    def _pause_client(self, partitions: Collection[Partition]) -> None:
        self._client.pause(_to_topic_partitions(dict.fromkeys(partitions, 0)))

    def _resume_client(self, partitions: Collection[Partition]) -> None:
        self._client.resume(_to_topic_partitions(dict.fromkeys(partitions, 0)))

    # --- offsets ----------------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets, metadata: Mapping[Partition, str] = NO_METADATA) -> None:
        """Store offsets for the group. Raise PartitionNotOwned, RebalanceInProgress."""
        if offsets:
            self._with_retries(lambda: self._commit_once(offsets, metadata))

    def _commit_once(self, offsets: Offsets, metadata: Mapping[Partition, str]) -> None:
        commits = [
            TopicPartition(each.topic, each.number, offset, metadata.get(each, ""))
            for each, offset in offsets.items()
        ]
        for each in self._client.commit(offsets=commits, asynchronous=False):
            if each.error:
                raise KafkaException(each.error)

    def committed_metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        """Return the committed offset and its text of each partition that has one."""
        if not partitions:
            return {}
        topic_partitions = _to_topic_partitions(dict.fromkeys(partitions, 0))
        found = self._with_retries(
            lambda: self._client.committed(topic_partitions, self._settings.request_timeout_seconds)
        )
        return {
            Partition(each.topic, each.partition): (each.offset, each.metadata or "")
            for each in found
            if each.offset != _NOTHING_COMMITTED
        }

    def beginning_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the first offset of each partition that the broker still has."""
        return self._list_offsets(OffsetSpec.earliest(), partitions)  # type: ignore[no-untyped-call]

    def offsets_for_time(self, partitions: Collection[Partition], milliseconds: int) -> dict[Partition, int]:
        """Return the offset of the first message of that time or later; the end if there is none."""
        ends = self.end_offsets(partitions)
        found = self._list_offsets(OffsetSpec.for_timestamp(milliseconds), partitions)
        return {each: ends[each] if offset < 0 else offset for each, offset in found.items()}  # -1: none

    def _fetch_end_offsets(
        self, partitions: Collection[Partition], timeout_seconds: float
    ) -> dict[Partition, int]:
        return self._list_offsets(OffsetSpec.latest(), partitions, timeout_seconds)  # type: ignore[no-untyped-call]

    def _positions(
        self, partitions: Collection[Partition], timeout_seconds: float
    ) -> Mapping[Partition, int]:
        return self._next_offsets

    def _list_offsets(
        self, which: OffsetSpec, partitions: Collection[Partition], timeout_seconds: float | None = None
    ) -> dict[Partition, int]:
        """Return offsets by one request on the admin's connection; on the consumer's it would wait behind a fetch."""
        if not partitions:
            return {}
        patience = self._settings.request_timeout_seconds if timeout_seconds is None else timeout_seconds
        return self._with_retries(lambda: self._list_offsets_once(which, partitions, patience), patience)

    def _list_offsets_once(
        self, which: OffsetSpec, partitions: Collection[Partition], timeout_seconds: float
    ) -> dict[Partition, int]:
        specs = dict.fromkeys(_to_topic_partitions(dict.fromkeys(partitions, 0)), which)
        try:
            found = self._admin_client().list_offsets(specs, request_timeout=timeout_seconds)
            return {
                Partition(each.topic, each.partition): answer.result().offset
                for each, answer in found.items()
            }
        except KafkaException:
            self._admin = None  # its metadata of leaders is stale
            raise

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions. Raise FingerprintError without such a topic, or without an answer in time."""
        with translate_librdkafka_errors(self._settings):
            metadata = self._admin_client().list_topics(topic, self._settings.request_timeout_seconds)
        found = metadata.topics[topic]
        if found.error is not None or not found.partitions:
            raise base.no_such_topic(topic)
        return len(found.partitions)

    def _admin_client(self) -> AdminClient:
        """Return the client for queries, which `on_assigned` and `on_revoked` can use inside the consumer's `consume`.

        A consumer's method that runs callbacks (`list_topics`, `poll`, `consume`) must not be called there: when it returns,
        confluent-kafka 2.16.1 has lost the state of the outer call, and the next callback aborts the process
        (`CallState_get: Assertion 'cs != NULL'`).
        """
        if self._admin is None:
            self._admin = AdminClient(
                librdkafka_options(self._settings) | {"allow.auto.create.topics": False}
            )
        return self._admin


def _options(settings: Kafka, max_partition_fetch_bytes: int | None) -> dict[str, Any]:
    return {
        **librdkafka_options(settings),
        "group.id": settings.group_id,
        **({"group.instance.id": settings.group_instance_id} if settings.group_instance_id else {}),
        "partition.assignment.strategy": "cooperative-sticky",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest" if settings.auto_offset_reset == "earliest" else "error",
        "allow.auto.create.topics": False,
        "session.timeout.ms": settings.session_timeout_ms,
        "heartbeat.interval.ms": settings.session_timeout_ms // 10,
        "max.poll.interval.ms": max(settings.max_poll_interval_ms, settings.session_timeout_ms),
        "fetch.wait.max.ms": base.FETCH_MAX_WAIT_MS,
        "fetch.message.max.bytes": max_partition_fetch_bytes or base.MAX_PARTITION_FETCH_BYTES,
        "queued.max.messages.kbytes": max(base.FETCH_MAX_BYTES >> 10, 1),
        "topic.metadata.refresh.interval.ms": base.METADATA_MAX_AGE_MS,
    }


def _to_topic_partitions(offsets: Offsets) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.number, offset) for each, offset in offsets.items()]


def _partition_end_offsets(fetched: Sequence[Any]) -> dict[Partition, int]:
    """Return the end offsets of partitions that were read to their end.

    An end may be after the last message: the marker that ends a transaction is no message.
    """
    return {
        Partition(each.topic(), each.partition()): each.offset()
        for each in fetched
        if each.error() is not None and each.error().code() == KafkaError._PARTITION_EOF
    }


def _is_message(fetched: Any) -> bool:
    error = fetched.error()
    if error is None:
        return True
    if error.code() not in (*UNAVAILABLE_CODES, KafkaError._PARTITION_EOF) and not error.retriable():
        raise KafkaException(error)
    return False


def _to_messages(fetched: Sequence[Any]) -> list[Message]:
    """Return librdkafka's messages as ours. They are converted field by field, which takes half the time."""
    fields = (map(methodcaller(name), fetched) for name in ("topic", "partition", "offset", "key", "value"))
    timestamps = map(itemgetter(1), map(methodcaller("timestamp"), fetched))
    return list(map(Message._make, zip(*fields, map(read_headers, fetched), timestamps, strict=True)))
