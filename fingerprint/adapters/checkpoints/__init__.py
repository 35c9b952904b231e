"""Checkpoints in a folder or an object store: immutable files; the checkpoint whose manifest has the highest fence is the latest.

Example:
    >>> store = FileCheckpointStore(Checkpoints(url="s3://bucket/checkpoints"))
    >>> store.save(Checkpoint(Partition("events", 3), 120, Fence(0, 7, 0), blobs={"waiting": b"..."}))
    >>> store.latest(Partition("events", 3)).offset
    120

The parts are written first, the manifest last, under a name made from its fence; a restore lists the manifests and takes the
highest. A worker that was thought dead and still writes has an older generation, so its manifest is below that of the next owner,
however late it comes. A separate pointer to the latest checkpoint would need compare-and-swap for the same guarantee.
A list of the store must include files that were just written. This holds for a folder, S3, Google Cloud Storage and Azure Blob
Storage.

`store` holds the checkpoints of one partition, `garbage` finds the files to delete, `manifest` has the format and the names of
files, `object_store` the verbs of a folder and of fsspec.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fingerprint.adapters.checkpoints.garbage import GRACE_SECONDS, RETAINED, RetentionPolicy
from fingerprint.adapters.checkpoints.manifest import (
    CheckpointCorrupted,
    is_topic_name,
    parse_blob_path,
    parse_manifest_name,
    topic_folder,
    validate_checkpoint,
)
from fingerprint.adapters.checkpoints.object_store import open_file_store
from fingerprint.adapters.checkpoints.store import CheckpointSummary, PartitionCheckpoints
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.checkpoint_store import Checkpoint, Fence
from fingerprint.core.ports.message_stream import Partition, PartitionNotOwned
from fingerprint.core.settings import Checkpoints


class FileCheckpointStore:
    """Checkpoints as files. Implement `ports.checkpoint_store.CheckpointStore`.

    Several threads may use it, but only one at a time for each partition. Files written less than `grace_seconds` ago are never
    deleted, so a save must not take longer than that.
    """

    def __init__(
        self, settings: Checkpoints, grace_seconds: float = GRACE_SECONDS, retained: int | None = None
    ):
        self._url = settings.url
        self._store = open_file_store(settings.url)
        self._policy = RetentionPolicy(retained or RETAINED, grace_seconds)
        self._by_partition: dict[Partition, PartitionCheckpoints] = {}

    def save(self, checkpoint: Checkpoint) -> None:
        """Save a checkpoint, all of it or nothing."""
        validate_checkpoint(checkpoint)
        with self._translate_errors("cannot save a checkpoint"):
            self._partition_checkpoints(checkpoint.partition).save(checkpoint)

    def latest(self, partition: Partition) -> Checkpoint | None:
        """Return the intact checkpoint with the highest fence, or None."""
        with self._translate_errors("cannot read a checkpoint"):
            return self._partition_checkpoints(partition).latest()

    def next_fence(self, partition: Partition, generation: int) -> Fence:
        """Return a fence above those of all existing checkpoints."""
        with self._translate_errors("cannot list checkpoints"):
            return self._partition_checkpoints(partition).next_fence(generation)

    def checkpointed_partitions(self, topic: str) -> list[Partition]:
        """Return the partitions of a topic that have a checkpoint, by number."""
        folder = topic_folder(topic)
        with self._translate_errors("cannot list checkpoints"):
            names = [name for name in self._store.list_folders(folder) if name.isascii() and name.isdigit()]
            there = [
                int(name)
                for name in names
                if any(map(parse_manifest_name, self._store.list_files(f"{folder}/{name}")))
            ]
        return [Partition(topic, number) for number in sorted(there)]

    def list_summaries(self) -> list[CheckpointSummary]:
        """Return a summary of each partition, of all topics, that has a checkpoint."""
        with self._translate_errors("cannot list checkpoints"):
            topics = [name for name in sorted(self._store.list_folders("")) if is_topic_name(name)]
            found = [
                self._partition_checkpoints(partition).summary()
                for topic in topics
                for partition in self.checkpointed_partitions(topic)
            ]
        return [each for each in found if each]

    def put_blob(self, partition: Partition, blob: bytes) -> str:
        """Store a part beside the checkpoints; return the path that `get_blob` takes."""
        with self._translate_errors("cannot store a part"):
            return self._partition_checkpoints(partition).put_blob(blob)

    def get_blob(self, name: str) -> bytes:
        """Return a stored part, verified. Raise FingerprintError if it is missing or damaged."""
        partition, part = parse_blob_path(name)
        with self._translate_errors(f"cannot read part {name}"):
            try:
                return self._partition_checkpoints(partition).get_blob(part)
            except CheckpointCorrupted as reason:
                raise FingerprintError(
                    f"part {name} of the checkpoints {self._url} is damaged: {reason}"
                ) from None
            except FileNotFoundError:
                raise FingerprintError(f"part {name} of the checkpoints {self._url} is missing") from None

    def _partition_checkpoints(self, partition: Partition) -> PartitionCheckpoints:
        if partition not in self._by_partition:
            self._by_partition[partition] = PartitionCheckpoints(self._store, partition, self._policy)
        return self._by_partition[partition]

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        """Raise the store's errors as one sentence."""
        try:
            yield
        except (FingerprintError, PartitionNotOwned):
            raise
        except Exception as error:  # each object store raises its own kinds
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise FingerprintError(f"checkpoints {self._url}: {what} ({reason})") from error
