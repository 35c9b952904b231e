"""The topics of a broker through confluent-kafka.

Example:
    >>> with ConfluentTopicAdmin(settings.kafka) as admin:
    ...     admin.create(TopicSpec("fingerprint.events", partitions=4))
    True
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # they are exported
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from fingerprint.adapters.kafka import base
from fingerprint.adapters.kafka.confluent_connection import (
    ConnectionFailure,
    check_connection,
    librdkafka_options,
    translate_librdkafka_errors,
)
from fingerprint.core.ports.topics import TopicSpec
from fingerprint.core.settings import Kafka


class ConfluentTopicAdmin(base.BaseTopicAdmin):
    """A `ports.topics.TopicAdmin`."""

    def __init__(self, settings: Kafka):
        super().__init__(settings)
        self._timeout_seconds = settings.request_timeout_seconds
        failure = ConnectionFailure()
        with self._translated_errors():
            self._admin = AdminClient(librdkafka_options(settings) | {"error_cb": failure.on_error})
            check_connection(self._admin, settings, failure)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise librdkafka's errors as ours; a broker that has just started answers but is not ready yet."""
        with translate_librdkafka_errors(self._settings):
            try:
                yield
            except KafkaException as exception:
                if not exception.args[0].retriable():
                    raise
                raise base.not_ready(self._settings, exception.args[0].str()) from None

    def _list_topics(self, names: Collection[str]) -> dict[str, tuple[int, int]]:
        # list all topics: a broker might create one that is named
        every = self._admin.list_topics(timeout=self._timeout_seconds).topics
        found = {name: every[name].partitions for name in names if name in every}
        return {name: (len(each), len(next(iter(each.values())).replicas)) for name, each in found.items()}

    def _read_configs(self, names: Collection[str]) -> Mapping[str, Callable[[str], str]]:
        resources = [ConfigResource(ResourceType.TOPIC, each) for each in names]
        if not resources:
            return {}
        found = self._admin.describe_configs(resources, request_timeout=self._timeout_seconds)
        return {topic.name: _reader(answer.result()) for topic, answer in found.items()}

    def create(self, topic: TopicSpec) -> bool:
        """Create a topic. Return False and do nothing if there is one of that name."""
        replicas = -1 if topic.replicas is None else topic.replicas
        new_topic = NewTopic(topic.name, topic.partitions, replicas, config=topic.configs())
        with self._translated_errors():
            answers = self._admin.create_topics([new_topic], request_timeout=self._timeout_seconds)
            try:
                answers[topic.name].result()
            except KafkaException as exception:
                if exception.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                return False
        self._wait_for_metadata(
            lambda: topic.name in self.describe([topic.name]), f"topic {topic.name} was made or has grown"
        )
        return True

    def add_partitions(self, name: str, partitions: int) -> None:
        """Increase a topic's number of partitions to `partitions`."""
        with self._translated_errors():
            request = NewPartitions(name, partitions)
            self._admin.create_partitions([request], request_timeout=self._timeout_seconds)[name].result()
        self._wait_for_metadata(
            lambda: self.describe([name])[name].partitions == partitions,
            f"topic {name} was made or has grown",
        )

    def close(self) -> None:
        """Do nothing: the client ends with its last reference."""


def _reader(configs: Mapping[str, object]) -> Callable[[str], str]:
    return lambda name: str(configs[name].value)  # type: ignore[attr-defined]  # a ConfigEntry
