"""The run of a service: it ends where the topic ended, says how it went, and leaves no mark when an error ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from itertools import count

import pytest
from prometheus_client import CollectorRegistry

from fingerprint.core.log import get_logger
from fingerprint.core.ports.message_stream import Message, Partition
from fingerprint.core.settings import Kafka
from fingerprint.streaming.bounded_read import NO_PARTITION_ASSIGNED
from fingerprint.streaming.metrics import IngestMetrics
from fingerprint.streaming.service import LIVENESS_TIMEOUT_SECONDS, ConsumerService

ONLY = Partition("raw", 0)


class Topic:
    """A consumer of one partition with so many messages, two a poll; more are written behind those it had at the start."""

    def __init__(self, messages: int, owned: bool = True) -> None:
        self.messages, self.owned, self.position = messages, owned, 0
        self.marks: dict[Partition, str] = {}

    def subscribe(self, topics: list[str], on_assigned: Callable, on_revoked: Callable) -> None:
        self.topics = topics
        if self.owned:
            on_assigned([ONLY])

    def assignment(self) -> set[Partition]:
        return {ONLY} if self.owned else set()

    def end_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return dict.fromkeys(partitions, self.messages)

    def lag(self) -> dict[Partition, int]:
        return {ONLY: self.messages - self.position}

    def poll(self, seconds: float) -> list[Message]:
        end = self.messages + 10 if self.position >= self.messages - 2 else self.messages
        offsets = range(self.position, min(self.position + 2, end)) if self.owned else range(0)
        self.position += len(offsets)
        return [Message("raw", 0, offset) for offset in offsets]

    def committed_metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        return dict.fromkeys(partitions, (0, ""))

    def commit(self, offsets: dict[Partition, int], texts: dict[Partition, str] | None = None) -> None:
        self.marks |= texts or {}


class Reading(ConsumerService):
    log = get_logger("fingerprint.test")

    def __init__(self, topic: Topic, fails_at: int | None = None) -> None:
        kafka = Kafka(session_timeout_ms=10, request_timeout_ms=10)
        super().__init__(topic, "raw", kafka, IngestMetrics(CollectorRegistry()))  # type: ignore[arg-type]
        self.read: list[int] = []
        self.fails_at = fails_at

    def run_once(self, seconds: float) -> list[Message]:
        messages = self.pausable_consumer.poll(seconds)
        for batch, _ in self.poison_guard.batches(messages):
            self.read += [each.offset for each in batch]
        if self.fails_at in self.read:
            raise ConnectionError
        return messages

    def assigned(self, partitions: Collection[Partition]) -> None:
        self.joined = True

    def revoked(self, partitions: Collection[Partition]) -> None:
        self.joined = False


def test_a_run_once_ends_where_the_topic_ended_at_the_start() -> None:
    service = Reading(Topic(6))
    figures = service.run(lambda: False, once=True)
    assert service.read == [0, 1, 2, 3, 4, 5]
    assert figures["seconds"] >= 0
    assert figures.keys() >= IngestMetrics(CollectorRegistry()).figures().keys()


def test_a_run_goes_on_until_it_is_asked_to_end() -> None:
    service, turns = Reading(Topic(2)), count(1)
    service.run(lambda: next(turns) > 5)
    assert len(service.read) == 10


def test_a_member_without_a_partition_ends_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    service = Reading(Topic(6, owned=False))
    with caplog.at_level("INFO"):
        service.run(lambda: False, once=True)
    assert service.read == []
    assert [record.getMessage() for record in caplog.records][-2:] == [NO_PARTITION_ASSIGNED, "done"]


def test_an_error_leaves_no_mark_of_a_killed_reader() -> None:
    topic = Topic(6)
    with pytest.raises(ConnectionError):
        Reading(topic, fails_at=3).run(lambda: False)
    assert topic.marks == {ONLY: "tries=0 alone=-1"}


def test_a_service_without_a_turn_for_minutes_is_not_alive() -> None:
    service = Reading(Topic(0))
    assert service.not_alive() is None
    service.last_iteration = time.monotonic() - LIVENESS_TIMEOUT_SECONDS - 7
    assert service.not_alive() == f"stands still for {LIVENESS_TIMEOUT_SECONDS + 7:.0f} s"
