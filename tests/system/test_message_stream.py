"""The stream's three adapters keep one contract: kafka-python and confluent-kafka against a real broker, and files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic

from fingerprint.adapters.file_broker import partition_log as topic_log
from fingerprint.adapters.file_broker.consumer import FileConsumer, FileProducer, create_topic
from fingerprint.adapters.kafka.confluent import ConfluentConsumer
from fingerprint.adapters.kafka.confluent_producer import ConfluentProducer
from fingerprint.adapters.kafka.kafka_python import KafkaPythonConsumer
from fingerprint.adapters.kafka.kafka_python_producer import KafkaPythonProducer
from fingerprint.core.ports import Consumer, Partition, Producer
from fingerprint.core.settings import Kafka
from tests.contracts.message_stream import AwayContract, TopicContract
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


class TestKafkaPython(TopicContract, AwayContract):
    @pytest.fixture
    def stream(self, broker: Broker, request: pytest.FixtureRequest) -> Iterator[OnBroker]:
        yield from on_broker(broker, request, KafkaPythonConsumer, KafkaPythonProducer)

    @pytest.mark.xfail(strict=True, reason="kafka-python 3.0.12 sends no headers without a value")
    def test_a_header_without_a_value_is_not_an_empty_one(self, stream: OnBroker) -> None:
        super().test_a_header_without_a_value_is_not_an_empty_one(stream)


class TestConfluent(TopicContract, AwayContract):
    @pytest.fixture
    def stream(self, broker: Broker, request: pytest.FixtureRequest) -> Iterator[OnBroker]:
        yield from on_broker(broker, request, ConfluentConsumer, ConfluentProducer)


class OnFiles:
    """Fresh topics in a folder."""

    def __init__(self, root: Path):
        self._root = root
        self._topics = 0
        self._open: list[Any] = []

    def topic(self, partitions: int = 1) -> str:
        self._topics += 1
        create_topic(self._root, f"topic-{self._topics}", partitions)
        return f"topic-{self._topics}"

    def consumer(self, group: str, **settings: Any) -> Consumer:
        self._open.append(
            FileConsumer(
                Kafka(client="files", bootstrap_servers=(str(self._root),), group_id=group, **settings)
            )
        )
        return self._open[-1]

    def producer(self, **settings: Any) -> Producer:
        return FileProducer(Kafka(client="files", bootstrap_servers=(str(self._root),), **settings))

    def forget(self, partition: Partition, before: int) -> None:
        log = topic_log.PartitionLog(self._root / partition.topic / str(partition.number))
        segments = log.segments()
        for segment, after in pairwise(segments):
            if int(after.name.removesuffix(".jsonl")) <= before:
                segment.unlink()

    def close(self) -> None:
        for each in self._open:
            each.close()


class TestFiles(TopicContract):
    @pytest.fixture
    def stream(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OnFiles]:
        monkeypatch.setattr(topic_log, "SEGMENT_BYTES", 500)
        stream = OnFiles(tmp_path)
        yield stream
        stream.close()
