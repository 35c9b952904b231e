"""The stream's door, through confluent-kafka (librdkafka): several times as fast, and compiled.

Example:
    >>> consumer = ConfluentConsumer(settings.kafka)
    >>> consumer.subscribe(["fingerprint.events"])
    >>> messages = consumer.poll(1.0)

`ports.Consumer` says what each method promises. Its twins are `kafka.py` and `topic_files.py`.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # it is exported

from fingerprint.adapters.kafka import limits
from fingerprint.adapters.kafka.confluent_compat import read_headers
from fingerprint.adapters.kafka.confluent_errors import ConnectionFailure, check_connection
from fingerprint.adapters.kafka.confluent_settings import librdkafka_options
from fingerprint.adapters.kafka.fetch_buffer import FetchBuffer
from fingerprint.core.alert import FingerprintError, ServerUnavailable
from fingerprint.core.ports import (
    NO_METADATA,
    Consumer,
    Message,
    Offsets,
    OnAssigned,
    OnRevoked,
    Partition,
    PartitionNotOwned,
    RebalanceInProgress,
)
from fingerprint.core.settings import Kafka

_MEMBERSHIP_LOST_CODES = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._FENCED,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._FATAL,  # of a consumer: another has its static name
}
_UNAVAILABLE_CODES = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
}  # it will be tried again
_TRANSIENT_CODES = {  # who leads a partition or a group has changed, and one of the two does not know it yet
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._WAIT_COORD,
    KafkaError._NOENT,  # the admin's word for no leader
    *_UNAVAILABLE_CODES,
}
RETRY_PAUSE_SECONDS = 0.1  # seconds between two tries
MAX_UNPOLLED = 100_000  # messages at most that were fetched and not polled yet
_Result = TypeVar("_Result")
_NOTHING_COMMITTED = confluent_kafka.OFFSET_INVALID


class ConfluentConsumer(Consumer):
    """See `ports.Consumer`. FingerprintError if no broker answers or lets us in."""

    def __init__(self, settings: Kafka, max_partition_fetch_bytes: int | None = None):
        self._settings = settings
        self._buffer = FetchBuffer()
        self._paused: set[Partition] = set()
        self._next_offsets: dict[Partition, int] = {}
        self._callback_error: BaseException | None = None
        self._closed = False
        self._admin: AdminClient | None = None
        reason = ConnectionFailure()
        with translate_librdkafka_errors(settings):
            self._client = confluent_kafka.Consumer(
                _options(settings, max_partition_fetch_bytes) | {"error_cb": reason.on_error}
            )
            check_connection(self._client, settings, reason)

    def subscribe(
        self,
        topics: Sequence[str],
        on_assigned: OnAssigned | None = None,
        on_revoked: OnRevoked | None = None,
    ) -> None:
        def gained(_: Any, partitions: list[TopicPartition]) -> None:
            if self._closed:
                self._client.incremental_assign(partitions)  # taken, to be given back at once
                return
            ours = _to_partitions(partitions)
            with self._deferring_errors():
                positions = self._resolve_positions(
                    ours, (on_assigned(ours) if on_assigned and ours else None) or {}
                )
                self._next_offsets |= positions
                self._client.incremental_assign(_to_topic_partitions(positions))

        def gone(_: Any, partitions: list[TopicPartition]) -> None:
            ours = _to_partitions(partitions)
            assigned = ours & self._next_offsets.keys()
            self._forget_partitions(ours)
            with self._deferring_errors():
                if on_revoked and assigned:
                    on_revoked(assigned)

        self._client.subscribe(list(topics), on_assign=gained, on_revoke=gone, on_lost=gone)

    @contextmanager
    def _deferring_errors(self) -> Iterator[None]:
        """An error in a callback is kept until `poll` or `close` can raise it."""
        try:
            yield
        except BaseException as error:
            self._callback_error = self._callback_error or error

    def _raise_deferred(self) -> None:
        error, self._callback_error = self._callback_error, None
        if error is not None:
            raise error

    def _forget_partitions(self, partitions: Collection[Partition]) -> None:
        self._buffer.discard_partitions(partitions)
        self._paused -= set(partitions)
        for each in partitions:
            self._next_offsets.pop(each, None)

    def _resolve_positions(
        self, partitions: Collection[Partition], positions: Offsets
    ) -> dict[Partition, int]:
        """Every partition has a position before anything is fetched, so that nothing is skipped unsaid."""
        open_ones = [each for each in partitions if each not in positions]
        known = {each: offset for each, offset in self.committed(open_ones).items() if offset is not None}
        fresh = [each for each in open_ones if each not in known]
        return {**self.beginning_offsets(fresh), **known, **positions}

    def poll(
        self, timeout_seconds: float, max_messages: int | None = None, max_bytes: int | None = None
    ) -> list[Message]:
        max_messages = max_messages or self._settings.max_poll_records
        max_bytes = max_bytes or limits.FETCH_MAX_BYTES
        if ready := self._buffer.pop(max_messages, max_bytes, self._paused):
            return ready
        with translate_librdkafka_errors(self._settings):
            self._fetch(timeout_seconds, max_messages)
        return self._buffer.pop(max_messages, max_bytes, self._paused)

    def _fetch(self, seconds: float, most: int) -> None:
        """librdkafka waits for the whole batch or the whole time: so wait for one, then take what is there."""
        deadline = time.monotonic() + seconds
        while True:
            fetched = self._client.consume(1, max(deadline - time.monotonic(), 0))
            fetched += self._client.consume(most - 1, 0) if fetched and most > 1 else []
            self._raise_deferred()
            messages = [_to_message(each) for each in fetched if _is_message(each)]
            self._buffer.add(messages)
            self._next_offsets |= {
                each.source_partition: each.offset + 1 for each in messages
            } | _partition_end_offsets(fetched)
            if messages or time.monotonic() >= deadline:
                return

    def assignment(self) -> frozenset[Partition]:
        return frozenset() if self._closed else frozenset(_to_partitions(self._client.assignment()))

    def generation(self) -> int:
        """Out of librdkafka's own form of group metadata, for it is told nowhere else: a mark, then 32 bits."""
        mark, form = b"CGMDv2:", self._client.consumer_group_metadata()
        if not isinstance(form, bytes) or not form.startswith(mark):
            raise FingerprintError("this librdkafka writes group metadata in a form that is not known here")
        return int(struct.unpack_from("=i", form, len(mark))[0])

    def seek(self, partition: Partition, offset: int) -> None:
        self._buffer.discard_partitions([partition])
        self._next_offsets[partition] = offset
        (there,) = _to_topic_partitions({partition: offset})
        with translate_librdkafka_errors(self._settings):
            self._client.incremental_unassign([there])
            self._client.incremental_assign([there])
            if partition in self._paused:
                self._client.pause([there])

    def pause(self, partitions: Collection[Partition]) -> None:
        self._client.pause(_to_topic_partitions(dict.fromkeys(partitions, 0)))
        self._paused |= set(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        self._client.resume(_to_topic_partitions(dict.fromkeys(partitions, 0)))
        self._paused -= set(partitions)

    def commit(self, offsets: Offsets, metadata: Mapping[Partition, str] = NO_METADATA) -> None:
        if not offsets:
            return
        self._with_retries(lambda: self._commit_now(offsets, metadata))

    def _commit_now(self, offsets: Offsets, metadata: Mapping[Partition, str]) -> None:
        wanted = [
            TopicPartition(each.topic, each.number, offset, metadata.get(each, ""))
            for each, offset in offsets.items()
        ]
        for each in self._client.commit(offsets=wanted, asynchronous=False):
            if each.error:
                raise KafkaException(each.error)

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        found = self.committed_metadata(partitions)
        return {each: found[each][0] if each in found else None for each in partitions}

    def committed_metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        if not partitions:
            return {}
        wanted = _to_topic_partitions(dict.fromkeys(partitions, 0))
        found = self._with_retries(
            lambda: self._client.committed(wanted, self._settings.request_timeout_seconds)
        )
        return {
            Partition(each.topic, each.partition): (each.offset, each.metadata or "")
            for each in found
            if each.offset != _NOTHING_COMMITTED
        }

    def beginning_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return self._query_offsets(OffsetSpec.earliest(), partitions)  # type: ignore[no-untyped-call]

    def end_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return self._query_offsets(OffsetSpec.latest(), partitions)  # type: ignore[no-untyped-call]

    def offsets_for_time(self, partitions: Collection[Partition], milliseconds: int) -> dict[Partition, int]:
        ends = self.end_offsets(partitions)
        found = self._query_offsets(OffsetSpec.for_timestamp(milliseconds), partitions)
        return {each: ends[each] if offset < 0 else offset for each, offset in found.items()}  # -1: none

    def _query_offsets(
        self, which: OffsetSpec, partitions: Collection[Partition], seconds: float | None = None
    ) -> dict[Partition, int]:
        """One question for all, on a connection of its own: on the consumer's it would wait behind a fetch."""
        if not partitions:
            return {}
        patience = self._settings.request_timeout_seconds if seconds is None else seconds
        return self._with_retries(lambda: self._query_offsets_once(which, partitions, patience), patience)

    def _with_retries(self, request: Callable[[], _Result], seconds: float | None = None) -> _Result:
        """Ask again while the broker is finding itself: it has just started, or something moved to another."""
        patience = self._settings.request_timeout_seconds if seconds is None else seconds
        deadline = time.monotonic() + patience
        with translate_librdkafka_errors(self._settings):
            while True:
                try:
                    return request()
                except KafkaException as error:
                    if error.args[0].code() not in _TRANSIENT_CODES or time.monotonic() > deadline:
                        raise
                    self._admin = None  # what it knows of leaders is stale
                    time.sleep(RETRY_PAUSE_SECONDS)

    def _query_offsets_once(
        self, which: OffsetSpec, partitions: Collection[Partition], seconds: float
    ) -> dict[Partition, int]:
        wanted = dict.fromkeys(_to_topic_partitions(dict.fromkeys(partitions, 0)), which)
        found = self._admin_client().list_offsets(wanted, request_timeout=seconds)
        return {
            Partition(each.topic, each.partition): answer.result().offset for each, answer in found.items()
        }

    def _admin_client(self) -> AdminClient:
        """Return the client for queries, also those of `on_assigned` and `on_revoked` within the consumer's `consume`.

        A method of the consumer that runs callbacks itself (`list_topics`, `poll`, `consume`) must not be called there: when
        it returns, confluent-kafka 2.16.1 has forgotten the outer call, and the next callback aborts the process
        (`CallState_get: Assertion 'cs != NULL'`).
        """
        if self._admin is None:
            self._admin = AdminClient(
                librdkafka_options(self._settings) | {"allow.auto.create.topics": False}
            )
        return self._admin

    def partition_count(self, topic: str) -> int:
        with translate_librdkafka_errors(self._settings):
            metadata = self._admin_client().list_topics(topic, self._settings.request_timeout_seconds)
        found = metadata.topics[topic]
        if found.error is not None or not found.partitions:
            raise FingerprintError(f"there is no topic {topic}: create it first")
        return len(found.partitions)

    def lag(self, timeout_seconds: float | None = None) -> dict[Partition, int]:
        held = self._buffer.next_offsets()
        ends = self._query_offsets(OffsetSpec.latest(), self.assignment(), timeout_seconds)  # type: ignore[no-untyped-call]
        return {each: end - held.get(each, self._next_offsets.get(each, end)) for each, end in ends.items()}

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with translate_librdkafka_errors(self._settings):
            try:  # to take the partitions assigned since the last poll, or librdkafka's own `close` may hang
                self._client.consume(MAX_UNPOLLED, 0)
            finally:
                self._client.close()
        self._raise_deferred()


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
        "fetch.wait.max.ms": 100,
        "fetch.message.max.bytes": max_partition_fetch_bytes or limits.MAX_PARTITION_FETCH_BYTES,
        "queued.max.messages.kbytes": max(limits.FETCH_MAX_BYTES >> 10, 1),
        "topic.metadata.refresh.interval.ms": 30_000,
    }


def _to_topic_partitions(offsets: Offsets) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.number, offset) for each, offset in offsets.items()]


def _to_partitions(partitions: Collection[TopicPartition]) -> set[Partition]:
    return {Partition(each.topic, each.partition) for each in partitions}


def _partition_end_offsets(fetched: Sequence[Any]) -> dict[Partition, int]:
    """Where a partition was read to its end, which may lie past its last message: what ends a transaction is none."""
    return {
        Partition(each.topic(), each.partition()): each.offset()
        for each in fetched
        if each.error() is not None and each.error().code() == KafkaError._PARTITION_EOF
    }


def _is_message(fetched: Any) -> bool:
    error = fetched.error()
    if error is None:
        return True
    if error.code() not in (*_UNAVAILABLE_CODES, KafkaError._PARTITION_EOF) and not error.retriable():
        raise KafkaException(error)
    return False


def _to_message(fetched: Any) -> Message:
    return Message(
        fetched.topic(),
        fetched.partition(),
        fetched.offset(),
        fetched.key(),
        fetched.value(),
        read_headers(fetched),
        fetched.timestamp()[1],
    )


@contextmanager
def translate_librdkafka_errors(settings: Kafka) -> Iterator[None]:
    """The client's errors as ours."""
    try:
        yield
    except KafkaException as exception:
        error = exception.args[0]
        where = ", ".join(settings.bootstrap_servers)
        if error.code() in _MEMBERSHIP_LOST_CODES:
            raise PartitionNotOwned(error.str()) from exception
        if error.code() == KafkaError.REBALANCE_IN_PROGRESS:
            raise RebalanceInProgress(error.str()) from exception
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise FingerprintError(
                f"messages were lost: {error.str()}; set kafka.auto_offset_reset = earliest to go on with what is left"
            ) from None
        if error.code() in _UNAVAILABLE_CODES or error.code() == KafkaError._TIMED_OUT:
            raise ServerUnavailable(f"no broker answers at {where}: {error.str()}") from None
        raise FingerprintError(f"Kafka at {where} refuses: {error.str()}") from exception
