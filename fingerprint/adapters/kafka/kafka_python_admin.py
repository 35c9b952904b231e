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

from fingerprint.adapters.kafka.kafka_python import RETRY_PAUSE_SECONDS, translate_connection_errors
from fingerprint.adapters.kafka.kafka_python_settings import kafka_python_options
from fingerprint.core.alert import ServerUnavailable
from fingerprint.core.ports.topics import (
    MAX_MESSAGE_BYTES_CONFIG,
    RETENTION_CONFIG,
    TIMESTAMP_TYPE_CONFIG,
    TopicAdmin,
    TopicSpec,
)
from fingerprint.core.settings import Kafka

_TRANSIENT_ERRORS = (
    errors.KafkaTimeoutError | errors.KafkaConnectionError | errors.NodeNotReadyError
)  # by `letting_in`


class KafkaPythonTopicAdmin(TopicAdmin):
    """See `ports_topics.Topics`."""

    def __init__(self, settings: Kafka):
        self._settings = settings
        patience = settings.request_timeout_ms
        with self._translate_errors():
            self._admin = kafka.KafkaAdminClient(
                **kafka_python_options(settings) | {"request_timeout_ms": patience}
            )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """A broker that has just started answers, and is not ready yet."""
        with translate_connection_errors(self._settings):
            try:
                yield
            except (errors.RetriableError, RuntimeError) as error:  # RuntimeError: no controller is known yet
                if isinstance(error, _TRANSIENT_ERRORS):
                    raise
                where = ", ".join(self._settings.bootstrap_servers)
                raise ServerUnavailable(f"Kafka at {where} is not ready: {error}") from None

    def describe(self, names: Collection[str]) -> dict[str, TopicSpec]:
        with self._translate_errors():
            every = self._admin.describe_topics()  # named ones, a broker might make
            there = {each["name"]: each["partitions"] for each in every if each["name"] in names}
            kept = self._configs(there)
        return {name: _to_topic(name, partitions, kept[name]) for name, partitions in there.items()}

    def _configs(self, names: Collection[str]) -> dict[str, dict[str, Any]]:
        wanted = [
            ConfigResource(
                ConfigResourceType.TOPIC,
                each,
                {RETENTION_CONFIG: "", MAX_MESSAGE_BYTES_CONFIG: "", TIMESTAMP_TYPE_CONFIG: ""},
            )
            for each in names
        ]
        if not wanted:
            return {}
        (found,) = self._admin.describe_configs(wanted, config_filter="All").values()
        return dict(found)

    def create(self, topic: TopicSpec) -> bool:
        wanted = {"num_partitions": topic.partitions, "configs": topic.configs()}
        if topic.replicas is not None:
            wanted["replication_factor"] = topic.replicas
        with self._translate_errors():
            answer = self._admin.create_topics({topic.name: wanted}, raise_errors=False)["topics"][0]
            if answer["error_code"] == errors.TopicAlreadyExistsError.errno:
                return False
            _raise_broker_error(answer["error_code"], answer["error_message"])
            self._admin.wait_for_topics([topic.name])
        return True

    def add_partitions(self, name: str, partitions: int) -> None:
        with self._translate_errors():
            answer = self._admin.create_partitions({name: partitions}, raise_errors=False).results[0]
            _raise_broker_error(answer.error_code, answer.error_message)
        self._wait_for_metadata(lambda: self.describe([name])[name].partitions == partitions, name)

    def _wait_for_metadata(self, known: Callable[[], bool], name: str) -> None:
        """What the controller has done, a broker knows a moment later."""
        deadline = time.monotonic() + self._settings.request_timeout_seconds
        while not known():
            if time.monotonic() > deadline:
                raise ServerUnavailable(f"topic {name} has grown, and the broker does not know it yet")
            time.sleep(RETRY_PAUSE_SECONDS)

    def close(self) -> None:
        self._admin.close()


def _raise_broker_error(code: int, sentence: str | None) -> None:
    """What the broker answered, in its own words: kafka-python would add the whole request and response."""
    if code:
        raise errors.for_code(code)(sentence)


def _to_topic(name: str, partitions: list[dict[str, Any]], configs: dict[str, Any]) -> TopicSpec:
    replicas = len(partitions[0]["replica_nodes"])
    kept, largest, stamped = (
        configs[each]["value"] for each in (RETENTION_CONFIG, MAX_MESSAGE_BYTES_CONFIG, TIMESTAMP_TYPE_CONFIG)
    )
    return TopicSpec(name, len(partitions), replicas, int(kept), int(largest), stamped)
