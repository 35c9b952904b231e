"""The adapters of a stream keep one contract: both clients against a real broker, and the broker in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic

from fingerprint.adapters.kafka import base
from fingerprint.adapters.kafka.confluent import ConfluentConsumer
from fingerprint.adapters.kafka.confluent_producer import ConfluentProducer
from fingerprint.adapters.kafka.kafka_python import KafkaPythonConsumer
from fingerprint.adapters.kafka.kafka_python_producer import KafkaPythonProducer
from fingerprint.core.ports.message_stream import Consumer, Partition, Producer
from fingerprint.core.settings import Kafka
from tests.contracts.message_stream import TopicContract, TransactionContract, outlives_an_outage, wait_until
from tests.support import memory_clients
from tests.support.memory_broker import MemoryBroker, RemoteBroker
from tests.support.memory_clients import MemoryConsumer, MemoryProducer, on
from tests.support.services.kafka import Broker

BRISK = {"request_timeout_ms": 20_000, "session_timeout_ms": 6000, "linger_ms": 1}


class OnBroker:
    """Fresh topics and groups on a real broker; what is still open is closed at the end."""

    def __init__(self, broker: Broker, name: str, consumer: Any, producer: Any):
        self._broker, self._name = broker, name
        self._consumer, self._producer = consumer, producer
        self._admin = KafkaAdminClient(bootstrap_servers=broker.address)
        self._topics = 0
        self._open: list[Any] = []

    def topic(self, partitions: int = 1) -> str:
        self._topics += 1
        name = f"{self._name}-{self._topics}"
        self._admin.create_topics([NewTopic(name, partitions, 1)], wait_for_metadata=True)
        return name

    def _settings(self, more: dict[str, Any]) -> Kafka:
        return Kafka(**{"bootstrap_servers": (self._broker.address,), **BRISK, **more})

    def consumer(self, group: str, **settings: Any) -> Consumer:
        self._open.append(self._consumer(self._settings({"group_id": f"{self._name}-{group}", **settings})))
        return self._open[-1]

    def producer(self, **settings: Any) -> Producer:
        self._open.append(self._producer(self._settings(settings)))
        return self._open[-1]

    def forget(self, partition: Partition, before: int) -> None:
        self._admin.delete_records({TopicPartition(*partition): before})

    def close(self) -> None:
        for each in self._open:
            each.close()
        self._admin.close()


def on_broker(
    broker: Broker, request: pytest.FixtureRequest, consumer: Any, producer: Any
) -> Iterator[OnBroker]:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.nodeid)[-150:]
    stream = OnBroker(broker, name, consumer, producer)
    yield stream
    stream.close()


class TestKafkaPython(TopicContract, TransactionContract):
    @pytest.fixture
    def stream(self, broker: Broker, request: pytest.FixtureRequest) -> Iterator[OnBroker]:
        yield from on_broker(broker, request, KafkaPythonConsumer, KafkaPythonProducer)

    @pytest.mark.xfail(strict=True, reason="kafka-python 3.0.12 sends no headers without a value")
    def test_a_header_without_a_value_is_not_an_empty_one(self, stream: OnBroker) -> None:
        super().test_a_header_without_a_value_is_not_an_empty_one(stream)


class TestConfluent(TopicContract, TransactionContract):
    @pytest.fixture
    def stream(self, broker: Broker, request: pytest.FixtureRequest) -> Iterator[OnBroker]:
        yield from on_broker(broker, request, ConfluentConsumer, ConfluentProducer)


@contextmanager
def away(broker: Broker) -> Iterator[None]:
    broker.kill()
    try:
        yield
    finally:
        broker.start()


def test_while_the_broker_is_away_memory_is_bounded_and_when_it_is_back_all_go_on(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both clients through one outage."""
    monkeypatch.setattr(base, "BUFFER_MEMORY", 200_000)
    monkeypatch.setattr(base, "MAX_BLOCK_MS", 200)
    with ExitStack() as open_until_the_end:
        streams = [
            open_until_the_end.enter_context(closing(OnBroker(broker, f"away-{name}", consumer, producer)))
            for name, consumer, producer in (
                ("kafka-python", KafkaPythonConsumer, KafkaPythonProducer),
                ("confluent", ConfluentConsumer, ConfluentProducer),
            )
        ]
        outlives_an_outage(streams, lambda: away(broker))


class InMemory:
    """Fresh topics on a broker in memory."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self._topics = 0
        self._open: list[Any] = []

    def topic(self, partitions: int = 1) -> str:
        self._topics += 1
        self.broker.create_topic(f"topic-{self._topics}", partitions)
        return f"topic-{self._topics}"

    def consumer(self, group: str, **settings: Any) -> Consumer:
        self._open.append(MemoryConsumer(Kafka(**on(self.broker), group_id=group, **settings)))
        return self._open[-1]

    def producer(self, **settings: Any) -> Producer:
        return MemoryProducer(Kafka(**on(self.broker), **settings))

    def forget(self, partition: Partition, before: int) -> None:
        self.broker.delete_records(partition, before)

    def close(self) -> None:
        for each in self._open:
            each.close()


class TestMemory(TopicContract):
    @pytest.fixture
    def stream(self) -> Iterator[InMemory]:
        stream = InMemory()
        yield stream
        stream.close()


class TestMemoryOverItsPort(TopicContract):
    """As a program reaches it that a test has started."""

    @pytest.fixture
    def stream(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemory]:
        monkeypatch.setattr(memory_clients, "connect", RemoteBroker)
        stream = InMemory()
        yield stream
        stream.close()

    def test_who_is_killed_owns_nothing_more(self, stream: InMemory) -> None:
        topic = stream.topic(2)
        killed, other = stream.consumer("group"), stream.consumer("group")
        killed.subscribe([topic])
        wait_until(lambda: killed.poll(0.1) or len(killed.assignment()) == 2, "one has all")
        other.subscribe([topic])
        killed._broker.disconnect()  # type: ignore[attr-defined]  # as the operating system does it
        wait_until(lambda: other.poll(0.1) or len(other.assignment()) == 2, "the other has all")
        stream._open.remove(killed)
