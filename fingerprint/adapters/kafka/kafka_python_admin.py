"""The topics of a broker through kafka-python.

Example:
    >>> with KafkaTopics(settings.kafka) as topics:
    ...     topics.make(Topic("fingerprint.events", partitions=4))
    True
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import kafka
from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType

from fingerprint.adapters.kafka.kafka_python import PAUSE, letting_in
from fingerprint.adapters.kafka.kafka_python_settings import connection
from fingerprint.core.alert import Away
from fingerprint.core.ports.topics import LARGEST, RETENTION, STAMPED, Topic, Topics
from fingerprint.core.settings import Kafka

_SAID = errors.KafkaTimeoutError | errors.KafkaConnectionError | errors.NodeNotReadyError  # by `letting_in`


class KafkaTopics(Topics):
    """See `ports_topics.Topics`."""

    def __init__(self, settings: Kafka):
        self._settings = settings
        patience = int(settings.answer_seconds * 1000)
        with self._asking():
            self._admin = kafka.KafkaAdminClient(**connection(settings) | {"request_timeout_ms": patience})

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """A broker that has just started answers, and is not ready yet."""
        with letting_in(self._settings):
            try:
                yield
            except (errors.RetriableError, RuntimeError) as error:  # RuntimeError: no controller is known yet
                if isinstance(error, _SAID):
                    raise
                where = ", ".join(self._settings.brokers)
                raise Away(f"Kafka at {where} is not ready: {error}") from None

    def found(self, names: Collection[str]) -> dict[str, Topic]:
        with self._asking():
            every = self._admin.describe_topics()  # named ones, a broker might make
            there = {each["name"]: each["partitions"] for each in every if each["name"] in names}
            kept = self._configs(there)
        return {name: _topic(name, partitions, kept[name]) for name, partitions in there.items()}

    def _configs(self, names: Collection[str]) -> dict[str, dict[str, Any]]:
        wanted = [
            ConfigResource(ConfigResourceType.TOPIC, each, {RETENTION: "", LARGEST: "", STAMPED: ""})
            for each in names
        ]
        if not wanted:
            return {}
        (found,) = self._admin.describe_configs(wanted, config_filter="All").values()
        return dict(found)

    def make(self, topic: Topic) -> bool:
        wanted = {"num_partitions": topic.partitions, "configs": topic.configs()}
        if topic.replicas is not None:
            wanted["replication_factor"] = topic.replicas
        with self._asking():
            answer = self._admin.create_topics({topic.name: wanted}, raise_errors=False)["topics"][0]
            if answer["error_code"] == errors.TopicAlreadyExistsError.errno:
                return False
            _raise(answer["error_code"], answer["error_message"])
            self._admin.wait_for_topics([topic.name])
        return True

    def grow(self, name: str, partitions: int) -> None:
        with self._asking():
            answer = self._admin.create_partitions({name: partitions}, raise_errors=False).results[0]
            _raise(answer.error_code, answer.error_message)
        self._wait(lambda: self.found([name])[name].partitions == partitions, name)

    def _wait(self, known: Callable[[], bool], name: str) -> None:
        """What the controller has done, a broker knows a moment later."""
        deadline = time.monotonic() + self._settings.answer_seconds
        while not known():
            if time.monotonic() > deadline:
                raise Away(f"topic {name} has grown, and the broker does not know it yet")
            time.sleep(PAUSE)

    def close(self) -> None:
        self._admin.close()


def _raise(code: int, sentence: str | None) -> None:
    """What the broker answered, in its own words: kafka-python would add the whole request and response."""
    if code:
        raise errors.for_code(code)(sentence)


def _topic(name: str, partitions: list[dict[str, Any]], configs: dict[str, Any]) -> Topic:
    replicas = len(partitions[0]["replica_nodes"])
    kept, largest, stamped = (configs[each]["value"] for each in (RETENTION, LARGEST, STAMPED))
    return Topic(name, len(partitions), replicas, int(kept), int(largest), stamped)
