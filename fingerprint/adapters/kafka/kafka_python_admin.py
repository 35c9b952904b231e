"""The topics of a broker through kafka-python.

Example:
    >>> with KafkaPythonTopicAdmin(settings.kafka) as admin:
    ...     admin.create(TopicSpec("fingerprint.events", partitions=4))
    True
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import kafka
from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType

from fingerprint.adapters.kafka import base
from fingerprint.adapters.kafka.kafka_python_connection import (
    UNAVAILABLE_ERRORS,
    kafka_python_options,
    translate_connection_errors,
)
from fingerprint.core.ports.topics import (
    MAX_MESSAGE_BYTES_CONFIG,
    RETENTION_CONFIG,
    TIMESTAMP_TYPE_CONFIG,
    TopicSpec,
)
from fingerprint.core.settings import Kafka

_CONFIGS = (RETENTION_CONFIG, MAX_MESSAGE_BYTES_CONFIG, TIMESTAMP_TYPE_CONFIG)


class KafkaPythonTopicAdmin(base.BaseTopicAdmin):
    """A `ports.topics.TopicAdmin`."""

    def __init__(self, settings: Kafka):
        super().__init__(settings)
        options = kafka_python_options(settings) | {"request_timeout_ms": settings.request_timeout_ms}
        with self._translated_errors():
            self._admin = kafka.KafkaAdminClient(**options)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise kafka-python's errors as ours; a broker that has just started answers but is not ready yet."""
        with translate_connection_errors(self._settings):
            try:
                yield
            except (errors.RetriableError, RuntimeError) as error:  # RuntimeError: no controller is known yet
                if isinstance(error, UNAVAILABLE_ERRORS):
                    raise
                raise base.not_ready(self._settings, error) from None

    def _list_topics(self, names: Collection[str]) -> dict[str, tuple[int, int]]:
        every = self._admin.describe_topics()  # all topics: a broker might create one that is named
        found = {each["name"]: each["partitions"] for each in every if each["name"] in names}
        return {name: (len(each), len(each[0]["replica_nodes"])) for name, each in found.items()}

    def _read_configs(self, names: Collection[str]) -> Mapping[str, Callable[[str], str]]:
        resources = [
            ConfigResource(ConfigResourceType.TOPIC, each, dict.fromkeys(_CONFIGS, "")) for each in names
        ]
        if not resources:
            return {}
        (found,) = self._admin.describe_configs(resources, config_filter="All").values()
        return {name: _reader(configs) for name, configs in dict(found).items()}

    def create(self, topic: TopicSpec) -> bool:
        """Create a topic. Return False and do nothing if there is one of that name."""
        new_topic = {"num_partitions": topic.partitions, "configs": topic.configs()}
        if topic.replicas is not None:
            new_topic["replication_factor"] = topic.replicas
        with self._translated_errors():
            answer = self._admin.create_topics({topic.name: new_topic}, raise_errors=False)["topics"][0]
            if answer["error_code"] == errors.TopicAlreadyExistsError.errno:
                return False
            _raise_broker_error(answer["error_code"], answer["error_message"])
            self._admin.wait_for_topics([topic.name])
        return True

    def add_partitions(self, name: str, partitions: int) -> None:
        """Increase a topic's number of partitions to `partitions`."""
        with self._translated_errors():
            answer = self._admin.create_partitions({name: partitions}, raise_errors=False).results[0]
            _raise_broker_error(answer.error_code, answer.error_message)
        self._wait_for_metadata(
            lambda: self.describe([name])[name].partitions == partitions, f"topic {name} has grown"
        )

    def close(self) -> None:
        """Close the connection."""
        self._admin.close()


def _raise_broker_error(code: int, sentence: str | None) -> None:
    """Raise the broker's error with its own sentence; kafka-python would add the whole request and response."""
    if code:
        raise errors.for_code(code)(sentence)


def _reader(configs: Mapping[str, Any]) -> Callable[[str], str]:
    return lambda name: str(configs[name]["value"])
