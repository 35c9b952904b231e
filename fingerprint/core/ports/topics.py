"""Ports for the topics of a stream: describe, create and grow them.

Example:
    >>> def exists(topics: TopicAdmin, name: str) -> bool:
    ...     return name in topics.describe([name])
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol, Self

VIRTUAL_PARTITIONS = 256  # parts of the scorer's state; the number of a topic's partitions divides it
DEAD_LETTER_SUFFIX = ".dlq"  # of the topic for messages that could not be read
RETENTION_CONFIG = "retention.ms"  # this and the next two are the broker's names
MAX_MESSAGE_BYTES_CONFIG = "max.message.bytes"
TIMESTAMP_TYPE_CONFIG = "message.timestamp.type"


class TopicSpec(NamedTuple):
    """A topic that exists or is to be created. None leaves a value to the broker."""

    name: str
    partitions: int
    replicas: int | None = None
    retention_ms: int | None = None  # of a message; -1: for ever
    max_message_bytes: int | None = None  # of a batch, as it is compressed
    timestamp_type: str | None = None  # LogAppendTime: set by the broker; CreateTime: set by the producer

    def configs(self) -> dict[str, str]:
        """Return the configuration under the broker's names, to create the topic with."""
        configs = {
            RETENTION_CONFIG: self.retention_ms,
            MAX_MESSAGE_BYTES_CONFIG: self.max_message_bytes,
            TIMESTAMP_TYPE_CONFIG: self.timestamp_type,
        }
        return {key: str(value) for key, value in configs.items() if value is not None}


class TopicAdmin(Protocol):
    """The topics of a broker. Every method raises Unavailable, and FingerprintError if a person must correct something.

    Only `create` and `add_partitions` change anything; no topic, partition or message is ever removed.
    """

    def describe(self, names: Collection[str]) -> dict[str, TopicSpec]:
        """Return those of these topics that exist, by name."""
        ...

    def create(self, topic: TopicSpec) -> bool:
        """Create a topic, visible to all clients on return. Return False if the name is taken; that topic stays as it is."""
        ...

    def add_partitions(self, name: str, partitions: int) -> None:
        """Set a larger number of partitions. Raise FingerprintError if the topic has as many or more, or does not exist."""
        ...

    def close(self) -> None:
        """Close the connection. A second call does nothing."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
