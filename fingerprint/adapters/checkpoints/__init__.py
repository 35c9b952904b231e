"""Snapshots in a folder or an object store: immutable files, and the manifest with the highest fence is the latest.

Example:
    >>> snapshots = StoredSnapshots(State(snapshots="s3://bucket/snapshots"))
    >>> snapshots.save(Snapshot(Partition("events", 3), 120, Fence(0, 7, 0), parts={"waiting": b"..."}))
    >>> snapshots.latest(Partition("events", 3)).offset
    120

There is no separate pointer that could be moved wrongly. The parts are written first, the manifest last, under a name that
is its fence; whoever restores lists the manifests and takes the highest. A worker thought dead that still writes has an
older generation, so its manifest lies below that of the owner after it, however late it comes. A pointer would need
compare-and-swap to do the same. It rests on lists that show what was just written: a folder's do, and so do those of S3,
Google Cloud Storage and Azure Blob Storage.

`snapshots_shelf.py` is one partition, `snapshots_store.py` what the files lie in, `snapshots_manifest.py` the manifest.
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
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Checkpoint, Fence, Partition, PartitionNotOwned
from fingerprint.core.settings import Checkpoints


class FileCheckpointStore:
    """Keeps the protocol `Snapshots`. Partitions may be used from several threads, each from one at a time.

    `grace_seconds`: what was written less long ago is never deleted, so saving must not take so long.
    """

    def __init__(
        self, settings: Checkpoints, grace_seconds: float = GRACE_SECONDS, retained: int | None = None
    ):
        self._url = settings.url
        self._store = open_file_store(settings.url)
        self._policy = RetentionPolicy(retained or RETAINED, grace_seconds)
        self._by_partition: dict[Partition, PartitionCheckpoints] = {}

    def save(self, checkpoint: Checkpoint) -> None:
        validate_checkpoint(checkpoint)
        with self._translate_errors("cannot save a snapshot"):
            self._partition_checkpoints(checkpoint.partition).save(checkpoint)

    def latest(self, partition: Partition) -> Checkpoint | None:
        with self._translate_errors("cannot read a snapshot"):
            return self._partition_checkpoints(partition).latest()

    def next_fence(self, partition: Partition, generation: int) -> Fence:
        with self._translate_errors("cannot list snapshots"):
            return self._partition_checkpoints(partition).next_fence(generation)

    def checkpointed_partitions(self, topic: str) -> list[Partition]:
        folder = topic_folder(topic)
        with self._translate_errors("cannot list snapshots"):
            names = [name for name in self._store.list_folders(folder) if name.isascii() and name.isdigit()]
            there = [
                int(name)
                for name in names
                if any(map(parse_manifest_name, self._store.list_files(f"{folder}/{name}")))
            ]
        return [Partition(topic, number) for number in sorted(there)]

    def list_summaries(self) -> list[CheckpointSummary]:
        """One for each partition of each topic that has a snapshot, for people to look at."""
        with self._translate_errors("cannot list snapshots"):
            topics = [name for name in sorted(self._store.list_folders("")) if is_topic_name(name)]
            found = [
                self._partition_checkpoints(home).summary()
                for topic in topics
                for home in self.checkpointed_partitions(topic)
            ]
        return [each for each in found if each]

    def put_blob(self, partition: Partition, blob: bytes) -> str:
        with self._translate_errors("cannot store a part"):
            return self._partition_checkpoints(partition).put_blob(blob)

    def get_blob(self, name: str) -> bytes:
        partition, part = parse_blob_path(name)
        with self._translate_errors(f"cannot read part {name}"):
            try:
                return self._partition_checkpoints(partition).get_blob(part)
            except CheckpointCorrupted as reason:
                raise FingerprintError(
                    f"part {name} of the snapshots {self._url} is damaged: {reason}"
                ) from None
            except FileNotFoundError:
                raise FingerprintError(f"part {name} of the snapshots {self._url} is missing") from None

    def _partition_checkpoints(self, partition: Partition) -> PartitionCheckpoints:
        if partition not in self._by_partition:
            self._by_partition[partition] = PartitionCheckpoints(self._store, partition, self._policy)
        return self._by_partition[partition]

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        """The store's errors in one sentence."""
        try:
            yield
        except (FingerprintError, PartitionNotOwned):
            raise
        except Exception as error:  # each object store raises its own kinds
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise FingerprintError(f"snapshots {self._url}: {what} ({reason})") from error
