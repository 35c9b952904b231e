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

from fingerprint.adapters.kafka.fetch_buffer import Waiting
from fingerprint.adapters.kafka.kafka_python_compat import tolerate
from fingerprint.adapters.kafka.kafka_python_errors import overheard
from fingerprint.adapters.kafka.kafka_python_settings import connection
from fingerprint.adapters.kafka.rebalance_thread import Caller
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

# What was fetched is always taken whole, and bounded here: of kafka-python 3.0.12 a partition that is paused while part
# of a fetch is left never speaks again (`Fetcher.fetch_records` restores it only into a slot that is None).
ALL = 1 << 31
PAUSE = 0.1  # seconds between two tries
Answer = TypeVar("Answer")

_OUSTED = (
    errors.CommitFailedError,
    errors.FencedInstanceIdError,
    errors.UnknownMemberIdError,
    errors.IllegalGenerationError,
)


class KafkaConsumer(Consumer):
    """See `ports.Consumer`. FingerprintError if no broker answers or lets us in."""

    def __init__(self, settings: Kafka):
        self._settings = settings
        self._waiting = Waiting()
        self._paused: set[Partition] = set()
        self._caller = Caller()
        self._closed = False
        tolerate()
        with letting_in(settings):
            self._client = kafka.KafkaConsumer(**_options(settings))

    def subscribe(
        self, topics: Sequence[str], assigned: Assigned | None = None, revoked: Revoked | None = None
    ) -> None:
        def gained(partitions: Collection[TopicPartition]) -> None:
            ours = _ours(partitions)
            self._begin(ours, (assigned(ours) if assigned else None) or {})

        def gone(partitions: Collection[TopicPartition]) -> None:
            ours = _ours(partitions)
            self._waiting.drop(ours)
            self._paused -= ours
            if revoked:
                revoked(ours)

        listener = _Listener(self._caller, self._client._net.call_soon_threadsafe, gained, gone)
        self._client.subscribe(list(topics), listener=listener)
        with said(self._settings):
            for topic in topics:  # so that whoever shares out knows them, and need not share out again
                self._client.partitions_for_topic(topic)

    def _begin(self, partitions: Collection[Partition], positions: Offsets) -> None:
        """Every partition has a position before anything is fetched, so that nothing is skipped unsaid."""
        open_ones = [each for each in partitions if each not in positions]
        known = {each: offset for each, offset in self.committed(open_ones).items() if offset is not None}
        fresh = [each for each in open_ones if each not in known]
        for partition, offset in {**self.beginning(fresh), **known, **positions}.items():
            self._client.seek(_theirs(partition), offset)

    def poll(self, seconds: float, most: int | None = None, most_bytes: int | None = None) -> list[Message]:
        most = most or self._settings.poll_messages
        most_bytes = most_bytes or self._settings.poll_bytes
        if ready := self._waiting.take(most, most_bytes, self._paused):
            return ready
        with said(self._settings):
            fetched = self._caller.run(lambda: self._fetch(seconds))
        self._keep_joining()
        for partition, records in fetched.items():
            self._waiting.add(_messages(partition, records))
        return self._waiting.take(most, most_bytes, self._paused)

    def _fetch(self, seconds: float) -> dict[TopicPartition, list[Any]]:
        """Nothing while the broker is away: that is no reason to end."""
        try:
            return dict(self._client.poll(int(seconds * 1000), ALL))
        except errors.RetriableError:
            time.sleep(min(seconds, PAUSE))
            return {}

    def _patiently(self, ask: Callable[[], Answer], seconds: float | None = None) -> Answer:
        """Ask again while the broker is finding itself: kafka-python 3.0.12 gives up at the first refused connection."""
        patience = self._settings.answer_seconds if seconds is None else seconds
        deadline = time.monotonic() + patience
        with said(self._settings):
            while True:
                try:
                    return ask()
                except errors.RetriableError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(PAUSE)

    def _keep_joining(self) -> None:
        """kafka-python 3.0.12 forgets a join that new metadata asked for, if a poll ends before the join does: the
        member then waits for ever (`BaseCoordinator.join_group_async` looks at need_rejoin, which the join itself
        has just made False). Asked for once more, it goes on with the join that is under way."""
        coordinator = self._client._coordinator
        if coordinator._join_task is not None:
            coordinator.request_rejoin()

    def assignment(self) -> frozenset[Partition]:
        return frozenset() if self._closed else frozenset(_ours(self._client.assignment()))

    def generation(self) -> int:
        return int(self._client.group_metadata().generation_id)

    def seek(self, partition: Partition, offset: int) -> None:
        self._waiting.drop([partition])
        self._client.seek(_theirs(partition), offset)

    def pause(self, partitions: Collection[Partition]) -> None:
        self._client.pause(*map(_theirs, partitions))
        self._paused |= set(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        self._client.resume(*map(_theirs, partitions))
        self._paused -= set(partitions)

    def commit(self, offsets: Offsets, metadata: Mapping[Partition, str] = NO_METADATA) -> None:
        wanted = {
            _theirs(each): OffsetAndMetadata(offset, metadata.get(each, ""), -1)
            for each, offset in offsets.items()
        }
        self._patiently(lambda: self._client.commit(wanted, timeout_ms=self._patience))

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        def ask() -> dict[Partition, int | None]:
            return {
                each: self._client.committed(_theirs(each), timeout_ms=self._patience) for each in partitions
            }

        return self._patiently(ask)

    def metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        def ask() -> dict[Partition, Any]:
            patience = self._patience
            return {
                each: self._client.committed(_theirs(each), metadata=True, timeout_ms=patience)
                for each in partitions
            }

        return {each: (at.offset, at.metadata or "") for each, at in self._patiently(ask).items() if at}

    def beginning(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return self._bounds(self._client.beginning_offsets, partitions)

    def end(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return self._bounds(self._client.end_offsets, partitions)

    def since(self, partitions: Collection[Partition], milliseconds: int) -> dict[Partition, int]:
        ends = self.end(partitions)
        wanted = {_theirs(each): milliseconds for each in partitions}
        found = self._patiently(
            lambda: self._client.offsets_for_times(wanted, timeout_ms=self._patience) if wanted else {}
        )
        held = {Partition(each.topic, each.partition): at.offset for each, at in found.items() if at}
        return ends | held

    def _bounds(
        self, ask: Callable[..., Any], partitions: Collection[Partition], seconds: float | None = None
    ) -> dict[Partition, int]:
        if not partitions:
            return {}
        wanted, patience = [_theirs(each) for each in partitions], self._milliseconds(seconds)
        found = self._patiently(lambda: ask(wanted, timeout_ms=patience), seconds)
        return {Partition(each.topic, each.partition): offset for each, offset in found.items()}

    def partitions(self, topic: str) -> int:
        with letting_in(self._settings):
            return partitions_of(topic, self._settings)

    def lag(self, seconds: float | None = None) -> dict[Partition, int]:
        patience = self._milliseconds(seconds)
        held = self._waiting.first_offsets()
        ends = self._bounds(self._client.end_offsets, self.assignment(), seconds)
        with said(self._settings):
            return {
                each: end - held.get(each, self._client.position(_theirs(each), timeout_ms=patience))
                for each, end in ends.items()
            }

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._caller.finish()
            self._settle()
            self._caller.run(lambda: self._client.close(autocommit=False, timeout_ms=self._patience))
        finally:
            self._caller.close()

    def _settle(self) -> None:
        """Let a join that is under way end: until then nothing can be committed, and leaving waits behind it."""
        deadline = time.monotonic() + self._settings.answer_seconds
        while self._client._coordinator._join_task is not None and time.monotonic() < deadline:
            self._caller.run(lambda: self._client.poll(100, ALL))
            self._keep_joining()

    @property
    def _patience(self) -> int:
        """How long an answer may take, in milliseconds."""
        return self._milliseconds(None)

    def _milliseconds(self, seconds: float | None) -> int:
        return int((self._settings.answer_seconds if seconds is None else seconds) * 1000)


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Has the caller's thread do it, and waits on the network's thread without holding it up."""

    def __init__(self, caller: Caller, on_network: Callable[[Any], Any], gained: Any, gone: Any):
        self._caller = caller
        self._on_network = on_network
        self._gained = gained
        self._gone = gone

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        await self._ask(self._gained, assigned)

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        await self._ask(self._gone, revoked)

    async def _ask(self, call: Callable[[Any], None], partitions: Collection[TopicPartition]) -> None:
        answer = Future()
        self._caller.ask(call, partitions, lambda: self._on_network(lambda: answer.success(None)))
        await answer


def _options(settings: Kafka) -> dict[str, Any]:
    return {
        **connection(settings),
        "group_id": settings.group,
        "group_instance_id": settings.member,
        "partition_assignment_strategy": [CooperativeStickyAssignor],
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest" if settings.lost == "skip" else "none",
        "allow_auto_create_topics": False,
        "session_timeout_ms": int(settings.session_seconds * 1000),
        "heartbeat_interval_ms": int(settings.session_seconds * 1000 / 10),
        "max_poll_interval_ms": int(settings.between_polls_seconds * 1000),
        "fetch_max_wait_ms": 100,  # other questions wait behind a fetch
        "fetch_max_bytes": settings.poll_bytes,
        "max_partition_fetch_bytes": settings.fetch_bytes,
        "metadata_max_age_ms": 30_000,
    }


def _theirs(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.number)


def _ours(partitions: Collection[TopicPartition]) -> set[Partition]:
    return {Partition(each.topic, each.partition) for each in partitions}


def _messages(home: TopicPartition, records: Sequence[Any]) -> list[Message]:
    topic, number = home.topic, home.partition
    return [
        Message(topic, number, each.offset, each.key, each.value, tuple(each.headers), each.timestamp)
        for each in records
    ]


def partitions_of(topic: str, settings: Kafka) -> int:
    """FingerprintError if there is no such topic. On a connection of its own: the consumer's own question waits without
    end while no broker answers."""
    patience = int(settings.answer_seconds * 1000)
    admin = kafka.KafkaAdminClient(**connection(settings) | {"request_timeout_ms": patience})
    try:
        (found,) = admin.describe_topics([topic])
    finally:
        admin.close()
    if not found["partitions"]:
        raise FingerprintError(f"there is no topic {topic}: create it first")
    return len(found["partitions"])


@contextmanager
def letting_in(settings: Kafka) -> Iterator[None]:
    """`said`, while a connection is made: with the reason, if it cannot be."""
    with said(settings), overheard() as reason:
        try:
            yield
        except errors.KafkaTimeoutError:
            if not reason.refused:
                raise
            # where nobody asks who we are, that is what stands before a broker that is not up yet
            away = reason.hung_up and not (settings.tls or settings.mechanism)
            where = ", ".join(settings.brokers)
            raise (Away if away else FingerprintError)(
                f"Kafka at {where} does not let us in: {reason}"
            ) from None


@contextmanager
def said(settings: Kafka) -> Iterator[None]:
    """The client's errors as ours."""
    try:
        yield
    except _OUSTED as error:
        raise NotOwner(str(error)) from error
    except errors.RebalanceInProgressError as error:
        raise Rebalancing(str(error)) from error
    except errors.OffsetOutOfRangeError as error:
        raise FingerprintError(
            f"messages were lost: {error.args[0] if error.args else error} is no longer held by Kafka; "
            "set kafka.lost = skip to go on with what is left"
        ) from None
    except (errors.KafkaTimeoutError, errors.KafkaConnectionError, errors.NodeNotReadyError) as error:
        raise Away(f"no broker answers at {', '.join(settings.brokers)}: {error}") from None
    except errors.KafkaError as error:
        raise FingerprintError(f"Kafka at {', '.join(settings.brokers)} refuses: {error}") from error
