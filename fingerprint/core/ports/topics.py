"""The topics of a stream as whoever looks after them sees them, as protocols.

Example:
    >>> def has(topics: Topics, name: str) -> bool:
    ...     return name in topics.found([name])
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol, Self

DEAD_LETTER_SUFFIX = ".dlq"  # of the topic of messages that could not be read
RETENTION_CONFIG, MAX_MESSAGE_BYTES_CONFIG, TIMESTAMP_TYPE_CONFIG = (
    "retention.ms",
    "max.message.bytes",
    "message.timestamp.type",
)  # as brokers call them


class TopicSpec(NamedTuple):
    """A topic as it is, or is to be. None: what the broker does by itself; of a folder, that there is no such thing."""

    name: str
    partitions: int
    replicas: int | None = None
    retention_ms: int | None = None  # how long it holds a message; -1: for ever
    max_message_bytes: int | None = None  # the largest batch that it takes, as it is compressed
    timestamp_type: str | None = (
        None  # LogAppendTime: a message's time is when the broker took it; CreateTime: what its producer says
    )

    def configs(self) -> dict[str, str]:
        """What a broker is told of it when it is made, in the broker's words."""
        wanted = {
            RETENTION_CONFIG: self.retention_ms,
            MAX_MESSAGE_BYTES_CONFIG: self.max_message_bytes,
            TIMESTAMP_TYPE_CONFIG: self.timestamp_type,
        }
        return {key: str(value) for key, value in wanted.items() if value is not None}


class TopicAdmin(Protocol):
    """What topics there are. Every call raises FingerprintError for what a person must mend, Away where nobody answers yet.

    Only `make` and `grow` change anything; no topic, partition or message is ever removed.
    """

    def describe(self, names: Collection[str]) -> dict[str, TopicSpec]:
        """Those of these that are there, by name."""
        ...

    def create(self, topic: TopicSpec) -> bool:
        """The topic is there for everybody when this returns; False where there was one by that name, which stays as it is."""
        ...

    def add_partitions(self, name: str, partitions: int) -> None:
        """So many partitions, from now on. FingerprintError where it has as many or more, or is not there."""
        ...

    def close(self) -> None:
        """A second time does nothing."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
