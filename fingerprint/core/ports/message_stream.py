"""The message stream as ports: topics in partitions, a consumer that shares them with its group, and a producer.

Example:
    >>> def drain(consumer: Consumer) -> list[Message]:
    ...     return consumer.poll(timeout_seconds=1.0)

The terms are Kafka's; `Consumer` and `Producer` define them. Topics are created and described in `topics.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol, Self

Headers = tuple[tuple[str, bytes | None], ...]  # in order; a name may come twice


class Partition(NamedTuple):
    """One partition of a topic: the unit of order, of ownership and of committing."""

    topic: str
    number: int

    @property
    def label(self) -> str:
        """Return its name in logs, headers and tables: `events/3`."""
        return f"{self.topic}/{self.number}"


class Message(NamedTuple):
    """A message of a topic. It is a tuple for speed: a hundred thousand are made a second.

    `offset` counts from 0 within the partition. The producer sets `timestamp`, in milliseconds since 1970 UTC. A value or key of
    None differs from an empty one: in a compacted topic, the value None is a deletion.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp: int = 0

    @property
    def source_partition(self) -> Partition:
        """Return the partition that the message was read from."""
        return Partition(self.topic, self.partition)


Offsets = Mapping[Partition, int]
# Fields of a message. As functions in C they take a tenth of a property's time.
_partition_of = itemgetter(0, 1)
_offset_of = itemgetter(2)
_timestamp_of = itemgetter(6)
NO_METADATA: Mapping[Partition, str] = {}
OnAssigned = Callable[[Collection[Partition]], Offsets | None]
OnRevoked = Callable[[Collection[Partition]], None]


def next_offsets(messages: Sequence[Message]) -> dict[Partition, int]:
    """Return the offset after the last message of each partition. Messages must be in order within a partition.

    Example:
        >>> next_offsets([Message("events", 3, 17), Message("events", 3, 18)])
        {Partition(topic='events', number=3): 19}
    """
    return {each: offset + 1 for each, offset in _last_of_partition(messages, _offset_of).items()}


def last_timestamps(messages: Sequence[Message]) -> dict[Partition, int]:
    """Return the timestamp (ms) of the last message of each partition. Messages must be in order within a partition.

    Example:
        >>> last_timestamps([Message("events", 3, 17, timestamp=940_000), Message("events", 3, 18, timestamp=950_000)])
        {Partition(topic='events', number=3): 950000}
    """
    return _last_of_partition(messages, _timestamp_of)


def _last_of_partition(
    messages: Sequence[Message], value_of: Callable[[Message], int]
) -> dict[Partition, int]:
    last = dict(zip(map(_partition_of, messages), map(value_of, messages), strict=True))
    return {Partition(*partition): value for partition, value in last.items()}


class PartitionNotOwned(Exception):
    """The partition has another owner: drop its state. The new owner repeats the work since the last checkpoint."""


class RebalanceInProgress(Exception):
    """The group is rebalancing: nothing was committed; poll, then commit the partitions that are still assigned."""


class QueueFull(Exception):
    """The message was not accepted, because too much is in flight. Pause the consumer, keep polling, and send it again later."""


class DeliveryFailed(Exception):
    """An accepted message was not delivered: commit nothing that depends on it."""


class Consumer(Protocol):
    """One member of a group that shares the partitions of some topics.

    Example:
        >>> with consumer:
        ...     consumer.subscribe(["events"], on_assigned=restore, on_revoked=checkpoint)
        ...     while messages := consumer.poll(1.0):
        ...         process(messages)
        ...         consumer.commit(next_offsets(messages))

    - The *position* of a partition is the offset of the next message that `poll` returns.
    - The *committed position* is stored by the group: the next owner of the partition begins there. Only `commit` commits, so
      messages that were not committed are read again.
    - The *beginning* is the first offset that is still retained, the *end* the offset that the next message will get.
    - *Lag* is end minus position.

    Rebalancing is cooperative: a member goes on with the partitions that it keeps. `on_assigned` and `on_revoked` are called on
    the thread that is in `poll` or `close`, and their errors are raised there. `on_revoked` may still commit. It is also called
    for partitions that were lost without notice; a commit then raises PartitionNotOwned.

    Not thread-safe. Errors that an operator can correct are FingerprintError.
    """

    def subscribe(
        self,
        topics: Sequence[str],
        on_assigned: OnAssigned | None = None,
        on_revoked: OnRevoked | None = None,
    ) -> None:
        """Join the group with the next poll.

        `on_assigned` may return positions for some or all of its partitions. The others begin at the committed position, or at
        the beginning if there is none.
        """
        ...

    def poll(
        self, timeout_seconds: float, max_messages: int | None = None, max_bytes: int | None = None
    ) -> list[Message]:
        """Return the next messages as soon as there are any, in order within each partition; none after `timeout_seconds`.

        The result has at most `max_messages` and `max_bytes` of keys and values (default: settings), but at least one message if
        there is any. Raise FingerprintError if a position is no longer retained, so that messages were lost (setting
        `auto_offset_reset`).
        """
        ...

    def assignment(self) -> frozenset[Partition]:
        """Return the partitions that are assigned to this member."""
        ...

    def generation(self) -> int:
        """Return the group's generation, with which checkpoints are fenced: each later owner of a partition has a higher one."""
        ...

    def seek(self, partition: Partition, offset: int) -> None:
        """Move the position of a partition that is assigned."""
        ...

    def pause(self, partitions: Collection[Partition]) -> None:
        """Stop returning messages of these partitions until `resume`; they stay assigned, at the same positions."""
        ...

    def resume(self, partitions: Collection[Partition]) -> None:
        """Return messages of these partitions again."""
        ...

    def commit(self, offsets: Offsets, metadata: Mapping[Partition, str] = NO_METADATA) -> None:
        """Store positions for the group, durably when it returns.

        `metadata` has a short text for an offset; a commit without one removes it. Raise PartitionNotOwned if a partition was
        assigned to another member, RebalanceInProgress if that may be about to happen.
        """
        ...

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        """Return the committed position of each partition, None if the group has committed none."""
        ...

    def committed_metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        """Return the committed position of each partition with its text, which may be empty; without a commit it is left out."""
        ...

    def beginning_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the first offset of each partition that is still retained."""
        ...

    def end_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset that the next message of each partition will get."""
        ...

    def offsets_for_time(self, partitions: Collection[Partition], milliseconds: int) -> dict[Partition, int]:
        """Return the offset of the first message with this timestamp (ms since 1970) or a later one; the end if there is none."""
        ...

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has. Raise FingerprintError without such a topic, or without an answer in time."""
        ...

    def lag(self, timeout_seconds: float | None = None) -> dict[Partition, int]:
        """Return the lag of each assigned partition, in messages.

        Raise FingerprintError without an answer within `timeout_seconds` (default: settings).
        """
        ...

    def close(self) -> None:
        """Revoke the partitions (`on_revoked` is called) and leave the group. A second call does nothing."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Producer(Protocol):
    """An idempotent producer whose messages are acknowledged by all replicas.

    An accepted message is *in flight* until it is acknowledged. The size of all messages in flight is bounded, so an unavailable
    broker does not exhaust memory. Messages of one key go to one partition, the same with every client, and keep their order.
    Only `flush` proves delivery.
    """

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> None:
        """Accept a message, waiting a bounded time while too much is in flight.

        Raise QueueFull after that time; DeliveryFailed if an earlier message failed; FingerprintError for a message that is too
        large or a topic that does not exist.
        """
        ...

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has. Raise FingerprintError without such a topic, or without an answer in time."""
        ...

    def flush(self, timeout_seconds: float | None = None) -> None:
        """Wait until all accepted messages are acknowledged. Raise DeliveryFailed if they are not within `timeout_seconds`."""
        ...

    def close(self) -> None:
        """Flush for a bounded time and close the connection; raise DeliveryFailed like `flush`. A second call does nothing."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
