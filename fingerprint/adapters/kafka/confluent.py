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

from fingerprint.adapters.kafka.confluent_compat import headers_of
from fingerprint.adapters.kafka.confluent_errors import Reason, greet
from fingerprint.adapters.kafka.confluent_settings import connection
from fingerprint.adapters.kafka.fetch_buffer import Waiting
from fingerprint.core.alert import Away, FingerprintError
from fingerprint.core.ports import (
    NO_METADATA,
    Assigned,
    Consumer,
    Message,
    NotOwner,
    Offsets,
    Partition,
    Rebalancing,
    Revoked,
)
from fingerprint.core.settings import Kafka

_OUSTED = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._FENCED,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._FATAL,  # of a consumer: another has its static name
}
_AWAY = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE}  # it will be tried again
_PASSING = {  # who leads a partition or a group has changed, and one of the two does not know it yet
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._WAIT_COORD,
    KafkaError._NOENT,  # the admin's word for no leader
    *_AWAY,
}
PAUSE = 0.1  # seconds between two tries
Answer = TypeVar("Answer")
_NOTHING_COMMITTED = confluent_kafka.OFFSET_INVALID


class ConfluentConsumer(Consumer):
    """See `ports.Consumer`. FingerprintError if no broker answers or lets us in."""

    def __init__(self, settings: Kafka):
        self._settings = settings
        self._waiting = Waiting()
        self._paused: set[Partition] = set()
        self._next: dict[Partition, int] = {}
        self._error: BaseException | None = None
        self._closed = False
        self._admin: AdminClient | None = None
        reason = Reason()
        with said(settings):
            self._client = confluent_kafka.Consumer(_options(settings) | {"error_cb": reason.hear})
            greet(self._client, settings, reason)

    def subscribe(
        self, topics: Sequence[str], assigned: Assigned | None = None, revoked: Revoked | None = None
    ) -> None:
        def gained(_: Any, partitions: list[TopicPartition]) -> None:
            ours = _ours(partitions)
            with self._kept():
                positions = self._positions(ours, (assigned(ours) if assigned and ours else None) or {})
                self._next |= positions
                self._client.incremental_assign(_theirs(positions))

        def gone(_: Any, partitions: list[TopicPartition]) -> None:
            ours = _ours(partitions)
            self._forget(ours)
            with self._kept():
                if revoked and ours:
                    revoked(ours)

        self._client.subscribe(list(topics), on_assign=gained, on_revoke=gone, on_lost=gone)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """An error in a callback is kept until `poll` or `close` can raise it."""
        try:
            yield
        except BaseException as error:
            self._error = self._error or error

    def _raise_kept(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _forget(self, partitions: Collection[Partition]) -> None:
        self._waiting.drop(partitions)
        self._paused -= set(partitions)
        for each in partitions:
            self._next.pop(each, None)

    def _positions(self, partitions: Collection[Partition], positions: Offsets) -> dict[Partition, int]:
        """Every partition has a position before anything is fetched, so that nothing is skipped unsaid."""
        open_ones = [each for each in partitions if each not in positions]
        known = {each: offset for each, offset in self.committed(open_ones).items() if offset is not None}
        fresh = [each for each in open_ones if each not in known]
        return {**self.beginning(fresh), **known, **positions}

    def poll(self, seconds: float, most: int | None = None, most_bytes: int | None = None) -> list[Message]:
        most = most or self._settings.poll_messages
        most_bytes = most_bytes or self._settings.poll_bytes
        if ready := self._waiting.take(most, most_bytes, self._paused):
            return ready
        with said(self._settings):
            self._fetch(seconds, most)
        return self._waiting.take(most, most_bytes, self._paused)

    def _fetch(self, seconds: float, most: int) -> None:
        """librdkafka waits for the whole batch or the whole time: so wait for one, then take what is there."""
        deadline = time.monotonic() + seconds
        while True:
            fetched = self._client.consume(1, max(deadline - time.monotonic(), 0))
            fetched += self._client.consume(most - 1, 0) if fetched and most > 1 else []
            self._raise_kept()
            messages = [_message(each) for each in fetched if _is_message(each)]
            self._waiting.add(messages)
            self._next |= {each.home: each.offset + 1 for each in messages} | _ends(fetched)
            if messages or time.monotonic() >= deadline:
                return

    def assignment(self) -> frozenset[Partition]:
        return frozenset() if self._closed else frozenset(_ours(self._client.assignment()))

    def generation(self) -> int:
        """Out of librdkafka's own form of group metadata, for it is told nowhere else: a mark, then 32 bits."""
        mark, form = b"CGMDv2:", self._client.consumer_group_metadata()
        if not isinstance(form, bytes) or not form.startswith(mark):
            raise FingerprintError("this librdkafka writes group metadata in a form that is not known here")
        return int(struct.unpack_from("=i", form, len(mark))[0])

    def seek(self, partition: Partition, offset: int) -> None:
        self._waiting.drop([partition])
        self._next[partition] = offset
        (there,) = _theirs({partition: offset})
        with said(self._settings):
            self._client.incremental_unassign([there])
            self._client.incremental_assign([there])
            if partition in self._paused:
                self._client.pause([there])

    def pause(self, partitions: Collection[Partition]) -> None:
        self._client.pause(_theirs(dict.fromkeys(partitions, 0)))
        self._paused |= set(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        self._client.resume(_theirs(dict.fromkeys(partitions, 0)))
        self._paused -= set(partitions)

    def commit(self, offsets: Offsets, metadata: Mapping[Partition, str] = NO_METADATA) -> None:
        if not offsets:
            return
        self._patiently(lambda: self._commit_now(offsets, metadata))

    def _commit_now(self, offsets: Offsets, metadata: Mapping[Partition, str]) -> None:
        wanted = [
            TopicPartition(each.topic, each.number, offset, metadata.get(each, ""))
            for each, offset in offsets.items()
        ]
        for each in self._client.commit(offsets=wanted, asynchronous=False):
            if each.error:
                raise KafkaException(each.error)

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        found = self.metadata(partitions)
        return {each: found[each][0] if each in found else None for each in partitions}

    def metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        if not partitions:
            return {}
        wanted = _theirs(dict.fromkeys(partitions, 0))
        found = self._patiently(lambda: self._client.committed(wanted, self._settings.answer_seconds))
        return {
            Partition(each.topic, each.partition): (each.offset, each.metadata or "")
            for each in found
            if each.offset != _NOTHING_COMMITTED
        }

    def beginning(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return self._bounds(OffsetSpec.earliest(), partitions)  # type: ignore[no-untyped-call]

    def end(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return self._bounds(OffsetSpec.latest(), partitions)  # type: ignore[no-untyped-call]

    def since(self, partitions: Collection[Partition], milliseconds: int) -> dict[Partition, int]:
        ends = self.end(partitions)
        found = self._bounds(OffsetSpec.for_timestamp(milliseconds), partitions)
        return {each: ends[each] if offset < 0 else offset for each, offset in found.items()}  # -1: none

    def _bounds(
        self, which: OffsetSpec, partitions: Collection[Partition], seconds: float | None = None
    ) -> dict[Partition, int]:
        """One question for all, on a connection of its own: on the consumer's it would wait behind a fetch."""
        if not partitions:
            return {}
        patience = self._settings.answer_seconds if seconds is None else seconds
        return self._patiently(lambda: self._bounds_now(which, partitions, patience), patience)

    def _patiently(self, ask: Callable[[], Answer], seconds: float | None = None) -> Answer:
        """Ask again while the broker is finding itself: it has just started, or something moved to another."""
        patience = self._settings.answer_seconds if seconds is None else seconds
        deadline = time.monotonic() + patience
        with said(self._settings):
            while True:
                try:
                    return ask()
                except KafkaException as error:
                    if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                        raise
                    self._admin = None  # what it knows of leaders is stale
                    time.sleep(PAUSE)

    def _bounds_now(
        self, which: OffsetSpec, partitions: Collection[Partition], seconds: float
    ) -> dict[Partition, int]:
        if self._admin is None:
            self._admin = AdminClient(connection(self._settings))
        wanted = dict.fromkeys(_theirs(dict.fromkeys(partitions, 0)), which)
        found = self._admin.list_offsets(wanted, request_timeout=seconds)
        return {
            Partition(each.topic, each.partition): answer.result().offset for each, answer in found.items()
        }

    def partitions(self, topic: str) -> int:
        with said(self._settings):
            found = self._client.list_topics(topic, timeout=self._settings.answer_seconds).topics[topic]
        if found.error is not None or not found.partitions:
            raise FingerprintError(f"there is no topic {topic}: create it first")
        return len(found.partitions)

    def lag(self, seconds: float | None = None) -> dict[Partition, int]:
        held = self._waiting.first_offsets()
        ends = self._bounds(OffsetSpec.latest(), self.assignment(), seconds)  # type: ignore[no-untyped-call]
        return {each: end - held.get(each, self._next.get(each, end)) for each, end in ends.items()}

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with said(self._settings):
            self._client.close()
        self._raise_kept()


def _options(settings: Kafka) -> dict[str, Any]:
    return {
        **connection(settings),
        "group.id": settings.group,
        **({"group.instance.id": settings.member} if settings.member else {}),
        "partition.assignment.strategy": "cooperative-sticky",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest" if settings.lost == "skip" else "error",
        "allow.auto.create.topics": False,
        "session.timeout.ms": int(settings.session_seconds * 1000),
        "heartbeat.interval.ms": int(settings.session_seconds * 1000 / 10),
        "max.poll.interval.ms": int(max(settings.between_polls_seconds, settings.session_seconds) * 1000),
        "fetch.wait.max.ms": 100,
        "fetch.message.max.bytes": settings.fetch_bytes,
        "queued.max.messages.kbytes": max(settings.poll_bytes >> 10, 1),
        "topic.metadata.refresh.interval.ms": 30_000,
    }


def _theirs(offsets: Offsets) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.number, offset) for each, offset in offsets.items()]


def _ours(partitions: Collection[TopicPartition]) -> set[Partition]:
    return {Partition(each.topic, each.partition) for each in partitions}


def _ends(fetched: Sequence[Any]) -> dict[Partition, int]:
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
    if error.code() not in (*_AWAY, KafkaError._PARTITION_EOF) and not error.retriable():
        raise KafkaException(error)
    return False


def _message(fetched: Any) -> Message:
    return Message(
        fetched.topic(),
        fetched.partition(),
        fetched.offset(),
        fetched.key(),
        fetched.value(),
        headers_of(fetched),
        fetched.timestamp()[1],
    )


@contextmanager
def said(settings: Kafka) -> Iterator[None]:
    """The client's errors as ours."""
    try:
        yield
    except KafkaException as exception:
        error = exception.args[0]
        where = ", ".join(settings.brokers)
        if error.code() in _OUSTED:
            raise NotOwner(error.str()) from exception
        if error.code() == KafkaError.REBALANCE_IN_PROGRESS:
            raise Rebalancing(error.str()) from exception
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise FingerprintError(
                f"messages were lost: {error.str()}; set kafka.lost = skip to go on with what is left"
            ) from None
        if error.code() in _AWAY or error.code() == KafkaError._TIMED_OUT:
            raise Away(f"no broker answers at {where}: {error.str()}") from None
        raise FingerprintError(f"Kafka at {where} refuses: {error.str()}") from exception
