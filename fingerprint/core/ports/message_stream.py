"""The stream of messages as ports: topics in partitions, a consumer that shares them with its group, and a producer.

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
    """A message of a topic. A tuple, because a hundred thousand a second are made.

    `offset` counts from 0 within the partition. `timestamp` is set by the producer, in milliseconds since 1970 UTC. A value of
    None is not an empty one (in a compacted topic it is a deletion); the same goes for a key.
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
# Of a message: as functions of C, a tenth of a property's time.
_partition_of = itemgetter(0, 1)
_offset_of = itemgetter(2)
_timestamp_of = itemgetter(6)
NO_METADATA: Mapping[Partition, str] = {}
OnAssigned = Callable[[Collection[Partition]], Offsets | None]
OnRevoked = Callable[[Collection[Partition]], None]


def next_offsets(messages: Sequence[Message]) -> dict[Partition, int]:
    """Return the offset after the last message of each partition; messages lie in order within each.

    Example:
        >>> next_offsets([Message("events", 3, 17), Message("events", 3, 18)])
        {Partition(topic='events', number=3): 19}
    """
    return {each: offset + 1 for each, offset in _last_of_partition(messages, _offset_of).items()}


def last_timestamps(messages: Sequence[Message]) -> dict[Partition, int]:
    """Return the timestamp of the last message of each partition (milliseconds); messages lie in order within each.

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
    """The partition has another owner now: drop its state, because the new owner repeats the work from the last checkpoint."""


class RebalanceInProgress(Exception):
    """The group is rebalancing: nothing was committed; poll, then commit the partitions that are still assigned."""


class QueueFull(Exception):
    """The message was not accepted, because too much is in flight: pause the consumer, go on polling, and send it again later."""


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

    The *position* of a partition is the offset of the next message that `poll` returns. The *committed position* is the one that
    the group has stored: the next owner of the partition begins there. *Beginning* and *end* are the first offset that is still
    retained, and the offset that the next message will get. *Lag* is end minus position. Only `commit` commits, so messages that
    were not committed are read again.

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

        `on_assigned` may return positions for some or all of its partitions; the others begin at the committed position, or at
        their beginning without one.
        """
        ...

    def poll(
        self, timeout_seconds: float, max_messages: int | None = None, max_bytes: int | None = None
    ) -> list[Message]:
        """Return the next messages, in order within each partition, as soon as there are any; none after `timeout_seconds`.

        At most `max_messages` and `max_bytes` of keys and values (default: settings), but at least one message if there is any.
        Raise FingerprintError where a position is no longer retained, so messages were lost (setting `auto_offset_reset`).
        """
        ...

    def assignment(self) -> frozenset[Partition]:
        """Return the partitions that are assigned to this member."""
        ...

    def generation(self) -> int:
        """Return the generation of the group, higher for every later owner of a partition; checkpoints are fenced with it."""
        ...

    def seek(self, partition: Partition, offset: int) -> None:
        """Move the position of a partition that is assigned."""
        ...

    def pause(self, partitions: Collection[Partition]) -> None:
        """Return no messages of these until they are resumed; they stay assigned, at the same positions."""
        ...

    def resume(self, partitions: Collection[Partition]) -> None:
        """Return messages of these again."""
        ...

    def commit(self, offsets: Offsets, metadata: Mapping[Partition, str] = NO_METADATA) -> None:
        """Store positions for the group, durably when it returns.

        `metadata` is a short text beside an offset; a commit without one removes it. Raise PartitionNotOwned if a partition was
        assigned to another member, RebalanceInProgress if it may be about to.
        """
        ...

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        """Return the committed position of each, None where the group has committed none."""
        ...

    def committed_metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        """Return the committed position of each with its text, which may be empty; partitions without a commit are left out."""
        ...

    def beginning_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the first offset of each that is still retained."""
        ...

    def end_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset that the next message of each will get."""
        ...

    def offsets_for_time(self, partitions: Collection[Partition], milliseconds: int) -> dict[Partition, int]:
        """Return the offset of the first message with this timestamp (ms since 1970) or a later one; the end without any."""
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

    Messages are *in flight* from being accepted until they are acknowledged. Their size is bounded, so an unavailable broker
    costs no memory. Messages of one key go to one partition, the same with every client, and keep their order. Only `flush`
    proves delivery.
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
