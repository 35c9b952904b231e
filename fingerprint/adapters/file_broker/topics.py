"""The topics of a stream without a server: folders.

Example:
    >>> with FilesTopics(Kafka(client="files", brokers=("stream",))) as topics:
    ...     topics.make(Topic("fingerprint.events", partitions=4))
    True
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from fingerprint.adapters.file_broker.consumer import count_topic_partitions, create_topic
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports.topics import TopicAdmin, TopicSpec
from fingerprint.core.settings import Kafka


class FileTopicAdmin(TopicAdmin):
    """See `ports_topics.Topics`. The folder of the stream is made too."""

    def __init__(self, settings: Kafka):
        self._root = Path(settings.bootstrap_servers[0])

    def describe(self, names: Collection[str]) -> dict[str, TopicSpec]:
        counts = {name: count_topic_partitions(self._root, name) for name in names}
        return {name: TopicSpec(name, count) for name, count in counts.items() if count}

    def create(self, topic: TopicSpec) -> bool:
        if topic.name in self.describe([topic.name]):
            return False
        self._create_partitions(topic.name, topic.partitions)
        return True

    def add_partitions(self, name: str, partitions: int) -> None:
        there = count_topic_partitions(self._root, name)
        if not there:
            raise FingerprintError(f"there is no topic {name}: create it first")
        if partitions <= there:
            raise FingerprintError(f"topic {name} has {there} partitions, and cannot be given {partitions}")
        self._create_partitions(name, partitions)

    def _create_partitions(self, name: str, partitions: int) -> None:
        try:
            create_topic(self._root, name, partitions)
        except OSError as error:
            raise FingerprintError(f"stream {self._root}: {error.strerror or error}") from None

    def close(self) -> None:
        """Nothing is held."""
