"""The topics of a stream without a server: folders.

Example:
    >>> with FilesTopics(Kafka(client="files", brokers=("stream",))) as topics:
    ...     topics.make(Topic("fingerprint.events", partitions=4))
    True
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from fingerprint.adapters.file_broker.consumer import create_topic, partitions_of
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports.topics import Topic, Topics
from fingerprint.core.settings import Kafka


class FilesTopics(Topics):
    """See `ports_topics.Topics`. The folder of the stream is made too."""

    def __init__(self, settings: Kafka):
        self._root = Path(settings.brokers[0])

    def found(self, names: Collection[str]) -> dict[str, Topic]:
        counts = {name: partitions_of(self._root, name) for name in names}
        return {name: Topic(name, count) for name, count in counts.items() if count}

    def make(self, topic: Topic) -> bool:
        if topic.name in self.found([topic.name]):
            return False
        self._fill(topic.name, topic.partitions)
        return True

    def grow(self, name: str, partitions: int) -> None:
        there = partitions_of(self._root, name)
        if not there:
            raise FingerprintError(f"there is no topic {name}: create it first")
        if partitions <= there:
            raise FingerprintError(f"topic {name} has {there} partitions, and cannot be given {partitions}")
        self._fill(name, partitions)

    def _fill(self, name: str, partitions: int) -> None:
        try:
            create_topic(self._root, name, partitions)
        except OSError as error:
            raise FingerprintError(f"stream {self._root}: {error.strerror or error}") from None

    def close(self) -> None:
        """Nothing is held."""
