"""Checkpoints of the scorer's state as a port, and the fence that orders the checkpoints of a partition.

Example:
    >>> def resume_offset(checkpoints: CheckpointStore, partition: Partition) -> int:
    ...     restored = checkpoints.latest(partition)
    ...     return restored.offset if restored else 0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from fingerprint.core.ports.message_stream import Partition


class Fence(NamedTuple):
    """A fence orders the checkpoints of a partition: the one with the highest fence counts, not the one written last.

    Example:
        >>> Fence(0, 7, 12).successor()
        Fence(era=0, generation=7, sequence=13)
        >>> Fence(0, 7, 12).for_owner(generation=1)   # Kafka forgot the group, and its generations restarted
        Fence(era=1, generation=1, sequence=0)

    - `era` counts the restarts of generations: Kafka forgets the generation of a group that was empty for a long time.
    - `generation` is the owner's (`Consumer.generation`).
    - `sequence` counts the owner's checkpoints.
    """

    era: int = 0
    generation: int = 0
    sequence: int = 0

    def successor(self) -> Fence:
        """Return the next fence of the same owner."""
        return self._replace(sequence=self.sequence + 1)

    def for_owner(self, generation: int) -> Fence:
        """Return the first fence of the next owner, which has the same generation if a replica restarted under its old name."""
        if generation == self.generation:
            return self.successor()
        return Fence(self.era + (generation < self.generation), generation, 0)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint: the state of one partition at one position. A program that restores it reads on at `offset`.

    - `metadata` is small and has JSON's types (bank version, partitions of the topic, digest of the settings, counts).
    - `blobs` are bytes by name ("series.past", "pending"), opaque to the store.
    - `referenced_blobs` are names of blobs that `put_blob` stored and that the state still refers to.
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
