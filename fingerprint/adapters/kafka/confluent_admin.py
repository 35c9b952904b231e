"""The topics of a broker through confluent-kafka.

Example:
    >>> with ConfluentTopics(settings.kafka) as topics:
    ...     topics.make(Topic("fingerprint.events", partitions=4))
    True
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # they are exported
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from fingerprint.adapters.kafka.confluent import PAUSE, said
from fingerprint.adapters.kafka.confluent_errors import Reason, greet
from fingerprint.adapters.kafka.confluent_settings import connection
from fingerprint.core.alert import Away
from fingerprint.core.ports.topics import LARGEST, RETENTION, STAMPED, Topic, Topics
from fingerprint.core.settings import Kafka


class ConfluentTopics(Topics):
    """See `ports_topics.Topics`."""

    def __init__(self, settings: Kafka):
        self._settings = settings
        self._seconds = settings.answer_seconds
        reason = Reason()
        with self._asking():
            self._admin = AdminClient(connection(settings) | {"error_cb": reason.hear})
            greet(self._admin, settings, reason)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """A broker that has just started answers, and is not ready yet."""
        with said(self._settings):
            try:
                yield
            except KafkaException as exception:
                if not exception.args[0].retriable():
                    raise
                where = ", ".join(self._settings.brokers)
                raise Away(f"Kafka at {where} is not ready: {exception.args[0].str()}") from None

    def found(self, names: Collection[str]) -> dict[str, Topic]:
        with self._asking():
            every = self._admin.list_topics(timeout=self._seconds).topics  # a named one, a broker might make
            there = {name: every[name].partitions for name in names if name in every}
            kept = self._configs(there)
        return {name: _topic(name, partitions, kept[name]) for name, partitions in there.items()}

    def _configs(self, names: Collection[str]) -> dict[str, dict[str, Any]]:
        wanted = [ConfigResource(ResourceType.TOPIC, each) for each in names]
        if not wanted:
            return {}
        found = self._admin.describe_configs(wanted, request_timeout=self._seconds)
        return {each.name: answer.result() for each, answer in found.items()}

    def make(self, topic: Topic) -> bool:
        replicas = -1 if topic.replicas is None else topic.replicas
        wanted = NewTopic(topic.name, topic.partitions, replicas, config=topic.configs())
        with self._asking():
            try:
                self._admin.create_topics([wanted], request_timeout=self._seconds)[topic.name].result()
            except KafkaException as exception:
                if exception.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                return False
        self._wait(lambda: topic.name in self.found([topic.name]), topic.name)
        return True

    def grow(self, name: str, partitions: int) -> None:
        with self._asking():
            wanted = NewPartitions(name, partitions)
            self._admin.create_partitions([wanted], request_timeout=self._seconds)[name].result()
        self._wait(lambda: self.found([name])[name].partitions == partitions, name)

    def _wait(self, known: Callable[[], bool], name: str) -> None:
        """What the controller has done, a broker knows a moment later."""
        deadline = time.monotonic() + self._seconds
        while not known():
            if time.monotonic() > deadline:
                raise Away(f"topic {name} was made or has grown, and the broker does not know it yet")
            time.sleep(PAUSE)

    def close(self) -> None:
        """Nothing is held: the client goes with its last reference."""


def _topic(name: str, partitions: dict[int, Any], configs: dict[str, Any]) -> Topic:
    replicas = len(next(iter(partitions.values())).replicas)
    kept, largest, stamped = (configs[each].value for each in (RETENTION, LARGEST, STAMPED))
    return Topic(name, len(partitions), replicas, int(kept), int(largest), stamped)
