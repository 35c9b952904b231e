"""Ports: what the inside needs of Kafka, object stores, queues and clocks, as protocols with their terms defined once.

Example:
    >>> def drain(consumer: Consumer) -> list[Message]:
    ...     return consumer.poll(timeout_seconds=1.0)

`fingerprint/adapters` implements them; `pipelines/runtime/wiring.py` chooses. Every adapter passes the same contract tests as its
in-memory fake (tests/contracts). The ports of the database are in `store.py` and `accounts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.core.alert import Vote

VoteTable = Sequence[Vote] | pd.DataFrame  # a table has the fields of Vote as its columns
Headers = tuple[tuple[str, bytes | None], ...]  # in order; a name may come twice
T = TypeVar("T")
R = TypeVar("R")


class Partition(NamedTuple):
    """One partition of a topic: the unit of order, of ownership and of committing."""

    topic: str
    number: int

    @property
    def label(self) -> str:
        """`events/3`: as logs, headers and tables name it."""
        return f"{self.topic}/{self.number}"


class Message(NamedTuple):
    """Bytes at the door. A tuple, because a hundred thousand a second are made.

    `offset` counts from 0 within the partition. `timestamp` is what the producer said, in milliseconds since 1970
    UTC. A value of None is not an empty one (compacted topics: a deletion); the same goes for a key.
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
        return Partition(self.topic, self.partition)


Offsets = Mapping[Partition, int]
NO_METADATA: Mapping[Partition, str] = {}
OnAssigned = Callable[[Collection[Partition]], Offsets | None]
OnRevoked = Callable[[Collection[Partition]], None]


class PartitionNotOwned(Exception):
    """The partition has another owner now: drop what was done for it, whoever has it does it again."""


class RebalanceInProgress(Exception):
    """The group is sharing its partitions out anew: nothing was committed; poll, then commit what is still ours."""


class QueueFull(Exception):
    """As much is in flight as may be, or the broker is away: pause the consumer, poll on, send again later.
    The message was not taken."""


class DeliveryFailed(Exception):
    """A message that was taken did not arrive: commit nothing that rests on it."""


class Consumer(Protocol):
    """One member of a group that shares the partitions of some topics.

    Example:
        >>> with consumer:
        ...     consumer.subscribe(["events"], assigned=restore, revoked=remember)
        ...     while messages := consumer.poll(1.0):
        ...         work(messages)
        ...         consumer.commit(after(messages))

    The *position* of a partition is the offset of the next message that `poll` hands on. A *committed* offset is the
    position that a group has stored: whoever is assigned the partition next begins there. *Beginning* and *end* are
    the first offset that is still held, and the offset that the next message will get. *Lag* is end minus position.
    Nothing is committed but by `commit`, so what was not committed comes again.

    Partitions are given and taken one by one (cooperatively): who keeps a partition works on. `assigned` and `revoked`
    are called on the thread that is in `poll` or `close`, and only then; their errors come out of there. `revoked` may
    still commit. It is also called for partitions that were lost without asking; then committing raises NotOwner.

    One thread at a time. Errors that the person at the keyboard can mend are FingerprintError.
    """

    def subscribe(
        self,
        topics: Sequence[str],
        on_assigned: OnAssigned | None = None,
        on_revoked: OnRevoked | None = None,
    ) -> None:
        """Join the group, with the next poll. `assigned` may answer with the positions to begin at, for all or some
        of the partitions it was given; the others begin at what the group has committed, or else at their beginning.
        """
        ...

    def poll(
        self, timeout_seconds: float, max_messages: int | None = None, max_bytes: int | None = None
    ) -> list[Message]:
        """The next messages, in order within each partition; as soon as there are any, after `seconds` none.

        At most `most` messages and `most_bytes` of keys and values (default: settings), but always one if there is one.
        FingerprintError where a position is no longer held: messages were lost (settings: `lost`).
        """
        ...

    def assignment(self) -> frozenset[Partition]:
        """The partitions that are this member's now."""
        ...

    def generation(self) -> int:
        """A number that is higher for every later owner of a partition: what a snapshot is fenced with."""
        ...

    def seek(self, partition: Partition, offset: int) -> None:
        """Move the position of a partition that is assigned."""
        ...

    def pause(self, partitions: Collection[Partition]) -> None:
        """Hand on nothing of these until resumed; they stay this member's, and their positions stay."""
        ...

    def resume(self, partitions: Collection[Partition]) -> None: ...

    def commit(self, offsets: Offsets, metadata: Mapping[Partition, str] = NO_METADATA) -> None:
        """Safe when it returns. NotOwner if the group has given a partition to another member;
        Rebalancing if it is about to. `metadata` is a short text beside an offset; a commit without one takes it away."""
        ...

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        """None where the group has committed nothing yet."""
        ...

    def committed_metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        """The committed offset of each and the text beside it, empty where there is none; nothing of what has no commit."""
        ...

    def beginning_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]: ...

    def end_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]: ...

    def offsets_for_time(self, partitions: Collection[Partition], milliseconds: int) -> dict[Partition, int]:
        """The offset of the first message whose timestamp (since 1970) is that or later; the end where there is none."""
        ...

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has. FingerprintError if there is no such topic, or no answer in time."""
        ...

    def lag(self, timeout_seconds: float | None = None) -> dict[Partition, int]:
        """Of each assigned partition, in messages. FingerprintError without an answer within `seconds` (default:
        settings)."""
        ...

    def close(self) -> None:
        """Give the partitions back (`revoked` is called) and leave the group. A second time does nothing."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Producer(Protocol):
    """Sends messages; idempotent and acknowledged by all replicas.

    *In flight* is what was taken and not yet acknowledged. It is bounded (settings: `in_flight_bytes`), so a broker
    that is away costs no memory. Messages of one key go to one partition, the same whatever the client, and keep
    their order. *Delivered* is sure only when `flush` returns.
    """

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> None:
        """Take a message. Waits `send_seconds` (settings) for room, then raises Full; Undelivered if an earlier
        message failed. FingerprintError for a message that is too large or a topic that is not there."""
        ...

    def flush(self, timeout_seconds: float | None = None) -> None:
        """All that was taken has arrived; Undelivered if not, or if not within `seconds`."""
        ...

    def close(self) -> None:
        """Flush for a while and let go; raises Undelivered like `flush`. A second time does nothing."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Unavailable(Exception):
    """The other side does not answer, or refuses for now: the same may be asked again later."""


class ObjectNotFound(Exception):
    """The object is not there, or not to be had before somebody does something: asking again is no use."""


class ReceivedMessage(NamedTuple):
    """A message of a queue, in one worker's hands. `receipt` says so; `message.topic` is the queue's name, offset and
    timestamp are when it was sent, ms since the epoch; `receives` is how often it was taken, this time included, about."""

    id: str
    receipt: str
    message: Message
    receive_count: int = 1


class MessageQueue(Protocol):
    """Messages that several workers share, in any order.

    Example:
        >>> taken = queue.take()
        >>> work(taken)
        >>> queue.delete(taken)

    What was *taken* is hidden from the other workers, and stays so until it is deleted, given back (visible at once) or let
    go (visible when its time is over). A worker that dies does none of these, and its messages come again. Every call
    raises FingerprintError for what a person must mend, and Away.
    """

    @property
    def url(self) -> str: ...

    @property
    def name(self) -> str:
        """Like no topic of Kafka's: `sqs:account:name`."""
        ...

    def receive(self) -> list[ReceivedMessage]:
        """Some, as soon as there are any; none after a while."""
        ...

    def delete(self, received: Sequence[ReceivedMessage]) -> int:
        """They never come again; how many were no longer ours."""
        ...

    def return_to_queue(self, received: Sequence[ReceivedMessage]) -> None: ...

    def stop_extending(self, received: Sequence[ReceivedMessage]) -> None: ...

    def send(self, body: bytes) -> None:
        """Put a message on the queue, safe when it returns."""
        ...

    def approximate_depth(self) -> int:
        """About how many are there to be taken."""
        ...

    def close(self) -> None:
        """Holds nothing any more. A second time does nothing."""
        ...


class ObjectStore(Protocol):
    """A store of objects by bucket and key."""

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        """The bytes as they are stored, chunk by chunk. Gone; Away, also in the middle."""
        ...


class Fence(NamedTuple):
    """What orders the snapshots of a partition: the highest wins, whoever wrote last by the clock.

    Example:
        >>> Fence(0, 7, 12).next()
        Fence(era=0, generation=7, sequence=13)
        >>> Fence(0, 7, 12).owned(generation=1)   # the group was forgotten, and its generations began anew
        Fence(era=1, generation=1, sequence=0)

    `era` counts how often the group began anew: Kafka forgets the generation of a group that was empty for long.
    `generation` is the owner's (Consumer.generation); `sequence` counts the owner's snapshots.
    """

    era: int = 0
    generation: int = 0
    sequence: int = 0

    def successor(self) -> Fence:
        """The same owner's next one."""
        return self._replace(sequence=self.sequence + 1)

    def for_owner(self, generation: int) -> Fence:
        """The first fence of an owner that comes after this one. A replica that was restarted under its old name may
        come back with the generation it had."""
        if generation == self.generation:
            return self.successor()
        return Fence(self.era + (generation < self.generation), generation, 0)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of one partition at one position: whoever restores it reads on at `offset`.

    `about`: small facts that JSON can say (bank version, partitions of the topic, digest of the settings, counts).
    `parts`: bytes by name ("series.past", "waiting"), opaque here. `kept`: names of parts that `put` stored and this
    state still refers to.
    """

    partition: Partition
    offset: int
    fence: Fence
    metadata: Mapping[str, Any] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    referenced_blobs: tuple[str, ...] = ()


class CheckpointStore(Protocol):
    """Where the ledger's snapshots rest, by partition.

    Example:
        >>> restored = snapshots.latest(partition)              # assigned: seek to restored.offset
        >>> fence = snapshots.fence(partition, consumer.generation())
        >>> snapshots.save(Snapshot(partition, offset, fence, about, parts, kept))
        >>> fence = fence.next()                                # whether or not the save succeeded

    A snapshot is *whole* when everything it names is there, unharmed. *Saved* means safe: when `save` returns, Kafka
    may forget what came before its offset. Nothing that was written is ever changed; what the newest snapshots do
    not name is deleted after a while. FingerprintError: the store cannot do it, and why.
    """

    def save(self, checkpoint: Checkpoint) -> None:
        """All of it or, if it raises, none of it: what was saved before stays. A part that did not change since this
        owner's last snapshot is not written again. NotOwner if a snapshot of this fence or of a higher one is there:
        drop the state, and begin again with `latest`."""
        ...

    def latest(self, partition: Partition) -> Checkpoint | None:
        """The whole snapshot of the highest fence; None if there was never one. Damaged ones are passed over with a
        warning in the log. FingerprintError if there are some and none is whole, or a newer program wrote it."""
        ...

    def checkpointed_partitions(self, topic: str) -> list[Partition]:
        """Those that have a snapshot, by number."""
        ...

    def next_fence(self, partition: Partition, generation: int) -> Fence:
        """The first fence of a new owner: higher than that of every snapshot that is there, whole or not."""
        ...

    def put_blob(self, partition: Partition, blob: bytes) -> str:
        """Store a part beside the snapshots, safe when it returns; its name, for `Snapshot.kept` of this partition.
        What no snapshot names soon is deleted."""
        ...

    def get_blob(self, name: str) -> bytes:
        """A part that was put, verified. FingerprintError that names it if it is missing or damaged."""
        ...


class Inference(Protocol):
    """Who measures losses against the fingerprints of one bank.

    Example:
        >>> loss, known = losses.of(fingerprint, codes)

    *Of one bank*: every answer rests on the bank `version`, whole, or there is none. The same is answered whoever measures, to
    1e-4 nats, however the rows are cut and whatever else is asked at the time. The answer lies where the question lay, on the
    host or on a device.
    """

    @property
    def version(self) -> str:
        """The bank's."""
        ...

    @property
    def degraded(self) -> bool:
        """Whether the last answer is of who stands in for the one that should have measured."""
        ...

    def losses(
        self, fingerprint: NDArray[np.int32], codes: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Loss of each feature in nats, and whether the fingerprint knew its value: rows of the stack (N,), codes (N, F) ->
        2 x (N, F). FingerprintError for rows or codes that the bank cannot have; Away where nobody answers in time."""
        ...


class WorkerPool(Protocol):
    """Who does independent pieces of work: this process, or a cluster of them.

    Example:
        >>> for place, figures in workers.each(partial(learn, folder), range(16)):
        ...     progress(place, figures)

    *Work* is a function that can be imported where the worker is, or a `functools.partial` of one. Pieces and results are
    small (paths, numbers, small tables); data travels as files in a folder that all workers see.
    """

    @property
    def parallelism(self) -> int:
        """How many pieces are done at a time."""
        ...

    def map_unordered(self, work: Callable[[T], R], pieces: Sequence[T]) -> Iterator[tuple[int, R]]:
        """(Place of the piece, what came of it), as they are done, in any order.

        A piece whose worker died is done again by another, so `work` must be repeatable: it writes to a file of its own and
        renames. An error of the work itself ends all of it and is raised as it is. FingerprintError: a piece that killed
        every worker who took it, or the cluster is gone.
        """
        ...


class Clock(Protocol):
    """The time of day, for what has to know it. Detection does not: it lives in event time."""

    def now(self) -> datetime:
        """Now, in UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Come back after so many seconds."""
        ...
