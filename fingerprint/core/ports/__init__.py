"""Ports: Kafka, object stores, queues, inference, workers and clocks as protocols, with their terms defined once.

Example:
    >>> def drain(consumer: Consumer) -> list[Message]:
    ...     return consumer.poll(timeout_seconds=1.0)

`fingerprint/adapters` implements them; where a setting decides, `pipelines/runtime/wiring.py` chooses. Every adapter passes the
same contract tests as its in-memory fake (tests/contracts). The ports of the database are in `store.py` and `accounts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from fingerprint.core.alert import Vote

if TYPE_CHECKING:  # what lists alerts starts without NumPy and pandas
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

VoteTable: TypeAlias = "Sequence[Vote] | pd.DataFrame"  # a table has the fields of Vote as its columns
Headers = tuple[tuple[str, bytes | None], ...]  # in order; a name may come twice
T = TypeVar("T")
R = TypeVar("R")


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


class Unavailable(Exception):
    """A server does not answer, or refuses for now: the call may be repeated later."""


class ObjectNotFound(Exception):
    """The object does not exist, or cannot be read until a person intervenes: repeating the call is of no use."""


class ReceivedMessage(NamedTuple):
    """A message of a queue that one worker has received.

    `message.topic` is the queue's name; `message.offset` and `message.timestamp` are when it was sent, in ms since 1970.
    `receive_count` is about how often it was received, this time included, and `first_received` when it first was, in ms since
    1970.
    """

    id: str
    receipt: str
    message: Message
    receive_count: int = 1
    first_received: int = 0


class MessageQueue(Protocol):
    """Messages that several workers share, in any order.

    Example:
        >>> received = queue.receive()
        >>> process(received)
        >>> queue.delete(received)

    A *received* message is hidden from the other workers until it is deleted, returned (visible at once) or its time to be hidden
    is over. A worker that dies does none of these, so its messages become visible after their visibility timeout. Every method
    raises Unavailable, and FingerprintError for what a person must correct.
    """

    @property
    def url(self) -> str:
        """Return the address of the queue."""
        ...

    @property
    def name(self) -> str:
        """Return a name that no topic of Kafka can have: `sqs:account:name`."""
        ...

    def receive(self) -> list[ReceivedMessage]:
        """Return some messages as soon as there are any; none after a while."""
        ...

    def delete(self, received: Sequence[ReceivedMessage]) -> int:
        """Delete messages for good; return how many had already become visible to other workers."""
        ...

    def return_to_queue(self, received: Sequence[ReceivedMessage]) -> None:
        """Make messages visible to other workers at once."""
        ...

    def hide(self, received: Sequence[ReceivedMessage], seconds: int) -> None:
        """Keep messages hidden for so long, then make them visible to all workers."""
        ...

    def send(self, body: bytes) -> None:
        """Put a message on the queue, durably when it returns."""
        ...

    def approximate_depth(self) -> int:
        """Return about how many messages can be received."""
        ...

    def close(self) -> None:
        """Stop extending all received messages, and close the connection. A second call does nothing."""
        ...


class ObjectStore(Protocol):
    """A store of objects by bucket and key."""

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        """Yield the bytes as they are stored, chunk by chunk. Raise ObjectNotFound; Unavailable, also after some chunks."""
        ...


class Fence(NamedTuple):
    """A fence: the order of the checkpoints of a partition. The highest one counts, not the one that was written last.

    Example:
        >>> Fence(0, 7, 12).successor()
        Fence(era=0, generation=7, sequence=13)
        >>> Fence(0, 7, 12).for_owner(generation=1)   # Kafka forgot the group, and its generations restarted
        Fence(era=1, generation=1, sequence=0)

    `era` counts how often the generations restarted: Kafka forgets the generation of a group that was empty for long.
    `generation` is the owner's (`Consumer.generation`); `sequence` counts the owner's checkpoints.
    """

    era: int = 0
    generation: int = 0
    sequence: int = 0

    def successor(self) -> Fence:
        """Return the next fence of the same owner."""
        return self._replace(sequence=self.sequence + 1)

    def for_owner(self, generation: int) -> Fence:
        """Return the first fence of an owner after this one; a replica restarted under its old name may keep its generation."""
        if generation == self.generation:
            return self.successor()
        return Fence(self.era + (generation < self.generation), generation, 0)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint: the state of one partition at one position. A program that restores it reads on at `offset`.

    `metadata` is small and in JSON's types (bank version, partitions of the topic, digest of the settings, counts). `blobs` are
    bytes by name ("series.past", "pending"), opaque here. `referenced_blobs` are names of blobs that `put_blob` stored and this
    state still refers to.
    """

    partition: Partition
    offset: int
    fence: Fence
    metadata: Mapping[str, Any] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    referenced_blobs: tuple[str, ...] = ()


class CheckpointStore(Protocol):
    """The checkpoints of the scorer's state, by partition.

    Example:
        >>> restored = checkpoints.latest(partition)            # on assignment: seek to restored.offset
        >>> fence = checkpoints.next_fence(partition, consumer.generation())
        >>> checkpoints.save(Checkpoint(partition, offset, fence, metadata, blobs, referenced_blobs))
        >>> fence = fence.successor()                           # also after a save that failed

    A checkpoint is *whole* when every blob it names is there, undamaged. A *saved* one is durable: when `save` returns, the
    offset may be committed. Nothing that was written is ever changed; what the newest checkpoints do not name is deleted after
    a while. Every method raises FingerprintError with the reason where the store cannot do it.
    """

    def save(self, checkpoint: Checkpoint) -> None:
        """Save all of a checkpoint or, if it raises, none of it; older ones stay.

        A blob that did not change since this owner's last checkpoint is not written again. Raise PartitionNotOwned if there is
        a checkpoint with this fence or a higher one: drop the state, and begin again with `latest`.
        """
        ...

    def latest(self, partition: Partition) -> Checkpoint | None:
        """Return the whole checkpoint with the highest fence; None if there was never one.

        Damaged ones are skipped with a warning in the log. Raise FingerprintError if there are some and none is whole, or if a
        newer version of the program wrote it.
        """
        ...

    def checkpointed_partitions(self, topic: str) -> list[Partition]:
        """Return the partitions of a topic that have a checkpoint, by number."""
        ...

    def next_fence(self, partition: Partition, generation: int) -> Fence:
        """Return the first fence of a new owner: higher than that of every checkpoint there is, whole or not."""
        ...

    def put_blob(self, partition: Partition, blob: bytes) -> str:
        """Store a blob durably; return its name for `Checkpoint.referenced_blobs` of this partition.

        A blob that no checkpoint names soon is deleted.
        """
        ...

    def get_blob(self, name: str) -> bytes:
        """Return a stored blob after verifying it. Raise FingerprintError with its name if it is missing or damaged."""
        ...


class Inference(Protocol):
    """Losses of events against the fingerprints of one bank.

    Example:
        >>> losses, known = inference.losses(fingerprint, codes)

    Every answer is computed with the bank `version`, or there is no answer. All implementations agree to 1e-4 nats, however the
    rows are batched. Results are on the same device as the arguments.
    """

    @property
    def version(self) -> str:
        """Return the version of the bank."""
        ...

    @property
    def degraded(self) -> bool:
        """Return whether the last answer came from the fallback."""
        ...

    def losses(
        self, fingerprint: NDArray[np.int32], codes: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the loss of each feature in nats, and whether the fingerprint knew its value: both (N, F).

        `fingerprint` (N,) are rows of the stacked bank, `codes` (N, F) the encoded values. Raise FingerprintError for rows or
        codes that the bank cannot have; Unavailable without an answer in time.
        """
        ...


class WorkerPool(Protocol):
    """Independent tasks, done in this process or on a cluster.

    Example:
        >>> for index, figures in workers.map_unordered(partial(fit_partition, folder), range(16)):
        ...     progress(index, figures)

    `work` is a function that a worker can import, or a `functools.partial` of one. Arguments and results are small (paths,
    numbers, small tables); data travels as files in a folder that all workers see.
    """

    @property
    def parallelism(self) -> int:
        """Return how many tasks run at a time."""
        ...

    def map_unordered(self, work: Callable[[T], R], pieces: Sequence[T]) -> Iterator[tuple[int, R]]:
        """Yield (index of the piece, its result) as they finish, in any order.

        A piece whose worker died is repeated by another, so `work` must be repeatable: it writes to a file of its own and renames
        it. An error of `work` ends the iteration and is raised unchanged. Raise FingerprintError for a piece that killed every
        worker that ran it, and where the cluster is unavailable.
        """
        ...


class Clock(Protocol):
    """The time of day, where it matters. Detection uses event time alone."""

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait this many seconds."""
        ...
