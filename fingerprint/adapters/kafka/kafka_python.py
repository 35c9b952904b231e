"""The stream's door, through kafka-python: pure Python but for its checksum.

Example:
    >>> consumer = KafkaConsumer(settings.kafka)
    >>> consumer.subscribe(["fingerprint.events"])
    >>> messages = consumer.poll(1.0)

`ports.Consumer` says what each method promises. Its twins are `confluent.py` and `topic_files.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import kafka
from kafka import AsyncConsumerRebalanceListener, TopicPartition, errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.future import Future
from kafka.structs import OffsetAndMetadata

from fingerprint.adapters.kafka import limits
from fingerprint.adapters.kafka.fetch_buffer import FetchBuffer
from fingerprint.adapters.kafka.kafka_python_compat import tolerate_invalid_header_names
from fingerprint.adapters.kafka.kafka_python_errors import capture_connection_failure
from fingerprint.adapters.kafka.kafka_python_settings import kafka_python_options
from fingerprint.adapters.kafka.rebalance_thread import CallbackExecutor
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

# What was fetched is always taken whole, and bounded here: of kafka-python 3.0.12 a partition that is paused while part
# of a fetch is left never speaks again (`Fetcher.fetch_records` restores it only into a slot that is None).
UNLIMITED = 1 << 31
RETRY_PAUSE_SECONDS = 0.1  # seconds between two tries
_Result = TypeVar("_Result")

_MEMBERSHIP_LOST_ERRORS = (
    errors.CommitFailedError,
    errors.FencedInstanceIdError,
    errors.UnknownMemberIdError,
    errors.IllegalGenerationError,
)


class KafkaPythonConsumer(Consumer):
    """See `ports.Consumer`. FingerprintError if no broker answers or lets us in."""

    def __init__(self, settings: Kafka, max_partition_fetch_bytes: int | None = None):
        self._settings = settings
        self._buffer = FetchBuffer()
        self._paused: set[Partition] = set()
        self._callback_executor = CallbackExecutor()
        self._closed = False
        tolerate_invalid_header_names()
        with translate_connection_errors(settings):
            self._client = kafka.KafkaConsumer(**_options(settings, max_partition_fetch_bytes))

    def subscribe(
        self,
        topics: Sequence[str],
        on_assigned: OnAssigned | None = None,
        on_revoked: OnRevoked | None = None,
    ) -> None:
        def gained(partitions: Collection[TopicPartition]) -> None:
            ours = _to_partitions(partitions)
            self._set_positions(ours, (on_assigned(ours) if on_assigned else None) or {})

        def gone(partitions: Collection[TopicPartition]) -> None:
            ours = _to_partitions(partitions)
            self._buffer.discard_partitions(ours)
            self._paused -= ours
            if on_revoked:
                on_revoked(ours)

        listener = _RebalanceListener(
            self._callback_executor, self._client._net.call_soon_threadsafe, gained, gone
        )
        self._client.subscribe(list(topics), listener=listener)
        with translate_kafka_python_errors(self._settings):
            for topic in topics:  # so that whoever shares out knows them, and need not share out again
                self._client.partitions_for_topic(topic)

    def _set_positions(self, partitions: Collection[Partition], positions: Offsets) -> None:
        """Every partition has a position before anything is fetched, so that nothing is skipped unsaid."""
        open_ones = [each for each in partitions if each not in positions]
        known = {each: offset for each, offset in self.committed(open_ones).items() if offset is not None}
        fresh = [each for each in open_ones if each not in known]
        for partition, offset in {**self.beginning_offsets(fresh), **known, **positions}.items():
            self._client.seek(_to_topic_partition(partition), offset)

    def poll(
        self, timeout_seconds: float, max_messages: int | None = None, max_bytes: int | None = None
    ) -> list[Message]:
        max_messages = max_messages or self._settings.max_poll_records
        max_bytes = max_bytes or limits.FETCH_MAX_BYTES
        if ready := self._buffer.pop(max_messages, max_bytes, self._paused):
            return ready
        with translate_kafka_python_errors(self._settings):
            fetched = self._callback_executor.run(lambda: self._fetch(timeout_seconds))
        self._keep_joining()
        for partition, records in fetched.items():
            self._buffer.add(_to_messages(partition, records))
        return self._buffer.pop(max_messages, max_bytes, self._paused)

    def _fetch(self, seconds: float) -> dict[TopicPartition, list[Any]]:
        """Nothing while the broker is away: that is no reason to end."""
        try:
            return dict(self._client.poll(int(seconds * 1000), UNLIMITED))
        except errors.RetriableError:
            time.sleep(min(seconds, RETRY_PAUSE_SECONDS))
            return {}

    def _with_retries(self, request: Callable[[], _Result], seconds: float | None = None) -> _Result:
        """Ask again while the broker is finding itself: kafka-python 3.0.12 gives up at the first refused connection."""
        patience = self._settings.request_timeout_seconds if seconds is None else seconds
        deadline = time.monotonic() + patience
        with translate_kafka_python_errors(self._settings):
            while True:
                try:
                    return request()
                except errors.RetriableError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(RETRY_PAUSE_SECONDS)

    def _keep_joining(self) -> None:
        """kafka-python 3.0.12 forgets a join that new metadata asked for, if a poll ends before the join does: the
        member then waits for ever (`BaseCoordinator.join_group_async` looks at need_rejoin, which the join itself
        has just made False). Asked for once more, it goes on with the join that is under way."""
        coordinator = self._client._coordinator
        if coordinator._join_task is not None:
            coordinator.request_rejoin()

    def assignment(self) -> frozenset[Partition]:
        return frozenset() if self._closed else frozenset(_to_partitions(self._client.assignment()))

    def generation(self) -> int:
        return int(self._client.group_metadata().generation_id)

    def seek(self, partition: Partition, offset: int) -> None:
        self._buffer.discard_partitions([partition])
        self._client.seek(_to_topic_partition(partition), offset)

    def pause(self, partitions: Collection[Partition]) -> None:
        self._client.pause(*map(_to_topic_partition, partitions))
        self._paused |= set(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        self._client.resume(*map(_to_topic_partition, partitions))
        self._paused -= set(partitions)

    def commit(self, offsets: Offsets, metadata: Mapping[Partition, str] = NO_METADATA) -> None:
        wanted = {
            _to_topic_partition(each): OffsetAndMetadata(offset, metadata.get(each, ""), -1)
            for each, offset in offsets.items()
        }
        self._with_retries(lambda: self._client.commit(wanted, timeout_ms=self._timeout_milliseconds))

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        def ask() -> dict[Partition, int | None]:
            return {
                each: self._client.committed(_to_topic_partition(each), timeout_ms=self._timeout_milliseconds)
                for each in partitions
            }

        return self._with_retries(ask)

    def committed_metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        def ask() -> dict[Partition, Any]:
            patience = self._timeout_milliseconds
            return {
                each: self._client.committed(_to_topic_partition(each), metadata=True, timeout_ms=patience)
                for each in partitions
            }

        return {each: (at.offset, at.metadata or "") for each, at in self._with_retries(ask).items() if at}

    def beginning_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return self._query_offsets(self._client.beginning_offsets, partitions)

    def end_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return self._query_offsets(self._client.end_offsets, partitions)

    def offsets_for_time(self, partitions: Collection[Partition], milliseconds: int) -> dict[Partition, int]:
        ends = self.end_offsets(partitions)
        wanted = {_to_topic_partition(each): milliseconds for each in partitions}
        found = self._with_retries(
            lambda: (
                self._client.offsets_for_times(wanted, timeout_ms=self._timeout_milliseconds)
                if wanted
                else {}
            )
        )
        held = {Partition(each.topic, each.partition): at.offset for each, at in found.items() if at}
        return ends | held

    def _query_offsets(
        self, request: Callable[..., Any], partitions: Collection[Partition], seconds: float | None = None
    ) -> dict[Partition, int]:
        if not partitions:
            return {}
        wanted, patience = [_to_topic_partition(each) for each in partitions], self._milliseconds(seconds)
        found = self._with_retries(lambda: request(wanted, timeout_ms=patience), seconds)
        return {Partition(each.topic, each.partition): offset for each, offset in found.items()}

    def partition_count(self, topic: str) -> int:
        with translate_connection_errors(self._settings):
            return fetch_partition_count(topic, self._settings)

    def lag(self, timeout_seconds: float | None = None) -> dict[Partition, int]:
        patience = self._milliseconds(timeout_seconds)
        held = self._buffer.next_offsets()
        ends = self._query_offsets(self._client.end_offsets, self.assignment(), timeout_seconds)
        with translate_kafka_python_errors(self._settings):
            return {
                each: end
                - held.get(each, self._client.position(_to_topic_partition(each), timeout_ms=patience))
                for each, end in ends.items()
            }

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._callback_executor.wait_for_running()
            self._finish_join()
            self._callback_executor.run(
                lambda: self._client.close(autocommit=False, timeout_ms=self._timeout_milliseconds)
            )
        finally:
            self._callback_executor.close()

    def _finish_join(self) -> None:
        """Let a join that is under way end: until then nothing can be committed, and leaving waits behind it."""
        deadline = time.monotonic() + self._settings.request_timeout_seconds
        while self._client._coordinator._join_task is not None and time.monotonic() < deadline:
            self._callback_executor.run(lambda: self._client.poll(100, UNLIMITED))
            self._keep_joining()

    @property
    def _timeout_milliseconds(self) -> int:
        """How long an answer may take, in milliseconds."""
        return self._milliseconds(None)

    def _milliseconds(self, seconds: float | None) -> int:
        return int((self._settings.request_timeout_seconds if seconds is None else seconds) * 1000)


class _RebalanceListener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Has the caller's thread do it, and waits on the network's thread without holding it up."""

    def __init__(
        self,
        callback_executor: CallbackExecutor,
        network_loop: Callable[[Any], Any],
        on_assigned: Any,
        on_revoked: Any,
    ):
        self._callback_executor = callback_executor
        self._network_loop = network_loop
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        await self._run_callback(self._on_assigned, assigned)

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        await self._run_callback(self._on_revoked, revoked)

    async def _run_callback(
        self, call: Callable[[Any], None], partitions: Collection[TopicPartition]
    ) -> None:
        answer = Future()
        self._callback_executor.call_back(
            call, partitions, lambda: self._network_loop(lambda: answer.success(None))
        )
        await answer


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
        "fetch_max_wait_ms": 100,  # other questions wait behind a fetch
        "fetch_max_bytes": limits.FETCH_MAX_BYTES,
        "max_partition_fetch_bytes": max_partition_fetch_bytes or limits.MAX_PARTITION_FETCH_BYTES,
        "metadata_max_age_ms": 30_000,
    }


def _to_topic_partition(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.number)


def _to_partitions(partitions: Collection[TopicPartition]) -> set[Partition]:
    return {Partition(each.topic, each.partition) for each in partitions}


def _to_messages(home: TopicPartition, records: Sequence[Any]) -> list[Message]:
    topic, number = home.topic, home.partition
    return [
        Message(topic, number, each.offset, each.key, each.value, tuple(each.headers), each.timestamp)
        for each in records
    ]


def fetch_partition_count(topic: str, settings: Kafka) -> int:
    """FingerprintError if there is no such topic. On a connection of its own: the consumer's own question waits without
    end while no broker answers."""
    options = kafka_python_options(settings) | {"request_timeout_ms": settings.request_timeout_ms}
    admin = kafka.KafkaAdminClient(**options)
    try:
        (found,) = admin.describe_topics([topic])
    finally:
        admin.close()
    if not found["partitions"]:
        raise FingerprintError(f"there is no topic {topic}: create it first")
    return len(found["partitions"])


@contextmanager
def translate_connection_errors(settings: Kafka) -> Iterator[None]:
    """`said`, while a connection is made: with the reason, if it cannot be."""
    with translate_kafka_python_errors(settings), capture_connection_failure() as reason:
        try:
            yield
        except errors.KafkaTimeoutError:
            if not reason.is_authentication_failure:
                raise
            # where nobody asks who we are, that is what stands before a broker that is not up yet
            away = reason.is_disconnect and not (settings.tls or settings.sasl_mechanism)
            where = ", ".join(settings.bootstrap_servers)
            raise (ServerUnavailable if away else FingerprintError)(
                f"Kafka at {where} does not let us in: {reason}"
            ) from None


@contextmanager
def translate_kafka_python_errors(settings: Kafka) -> Iterator[None]:
    """The client's errors as ours."""
    try:
        yield
    except _MEMBERSHIP_LOST_ERRORS as error:
        raise PartitionNotOwned(str(error)) from error
    except errors.RebalanceInProgressError as error:
        raise RebalanceInProgress(str(error)) from error
    except errors.OffsetOutOfRangeError as error:
        raise FingerprintError(
            f"messages were lost: {error.args[0] if error.args else error} is no longer held by Kafka; "
            "set kafka.auto_offset_reset = earliest to go on with what is left"
        ) from None
    except (errors.KafkaTimeoutError, errors.KafkaConnectionError, errors.NodeNotReadyError) as error:
        raise ServerUnavailable(
            f"no broker answers at {', '.join(settings.bootstrap_servers)}: {error}"
        ) from None
    except errors.KafkaError as error:
        raise FingerprintError(
            f"Kafka at {', '.join(settings.bootstrap_servers)} refuses: {error}"
        ) from error
