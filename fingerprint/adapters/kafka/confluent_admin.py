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

from fingerprint.adapters.kafka.confluent import RETRY_PAUSE_SECONDS, translate_librdkafka_errors
from fingerprint.adapters.kafka.confluent_errors import ConnectionFailure, check_connection
from fingerprint.adapters.kafka.confluent_settings import librdkafka_options
from fingerprint.core.alert import ServerUnavailable
from fingerprint.core.ports.topics import (
    MAX_MESSAGE_BYTES_CONFIG,
    RETENTION_CONFIG,
    TIMESTAMP_TYPE_CONFIG,
    TopicAdmin,
    TopicSpec,
)
from fingerprint.core.settings import Kafka


class ConfluentTopicAdmin(TopicAdmin):
    """See `ports_topics.Topics`."""

    def __init__(self, settings: Kafka):
        self._settings = settings
        self._timeout_seconds = settings.request_timeout_seconds
        reason = ConnectionFailure()
        with self._translate_errors():
            self._admin = AdminClient(librdkafka_options(settings) | {"error_cb": reason.on_error})
            check_connection(self._admin, settings, reason)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """A broker that has just started answers, and is not ready yet."""
        with translate_librdkafka_errors(self._settings):
            try:
                yield
            except KafkaException as exception:
                if not exception.args[0].retriable():
                    raise
                where = ", ".join(self._settings.bootstrap_servers)
                raise ServerUnavailable(f"Kafka at {where} is not ready: {exception.args[0].str()}") from None

    def describe(self, names: Collection[str]) -> dict[str, TopicSpec]:
        with self._translate_errors():
            every = self._admin.list_topics(
                timeout=self._timeout_seconds
            ).topics  # a named one, a broker might make
            there = {name: every[name].partitions for name in names if name in every}
            kept = self._configs(there)
        return {name: _to_topic(name, partitions, kept[name]) for name, partitions in there.items()}

    def _configs(self, names: Collection[str]) -> dict[str, dict[str, Any]]:
        wanted = [ConfigResource(ResourceType.TOPIC, each) for each in names]
        if not wanted:
            return {}
        found = self._admin.describe_configs(wanted, request_timeout=self._timeout_seconds)
        return {each.name: answer.result() for each, answer in found.items()}

    def create(self, topic: TopicSpec) -> bool:
        replicas = -1 if topic.replicas is None else topic.replicas
        wanted = NewTopic(topic.name, topic.partitions, replicas, config=topic.configs())
        with self._translate_errors():
            try:
                self._admin.create_topics([wanted], request_timeout=self._timeout_seconds)[
                    topic.name
                ].result()
            except KafkaException as exception:
                if exception.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                return False
        self._wait_for_metadata(lambda: topic.name in self.describe([topic.name]), topic.name)
        return True

    def add_partitions(self, name: str, partitions: int) -> None:
        with self._translate_errors():
            wanted = NewPartitions(name, partitions)
            self._admin.create_partitions([wanted], request_timeout=self._timeout_seconds)[name].result()
        self._wait_for_metadata(lambda: self.describe([name])[name].partitions == partitions, name)

    def _wait_for_metadata(self, known: Callable[[], bool], name: str) -> None:
        """What the controller has done, a broker knows a moment later."""
        deadline = time.monotonic() + self._timeout_seconds
        while not known():
            if time.monotonic() > deadline:
                raise ServerUnavailable(
                    f"topic {name} was made or has grown, and the broker does not know it yet"
                )
            time.sleep(RETRY_PAUSE_SECONDS)

    def close(self) -> None:
        """Nothing is held: the client goes with its last reference."""


def _to_topic(name: str, partitions: dict[int, Any], configs: dict[str, Any]) -> TopicSpec:
    replicas = len(next(iter(partitions.values())).replicas)
    kept, largest, stamped = (
        configs[each].value for each in (RETENTION_CONFIG, MAX_MESSAGE_BYTES_CONFIG, TIMESTAMP_TYPE_CONFIG)
    )
    return TopicSpec(name, len(partitions), replicas, int(kept), int(largest), stamped)
