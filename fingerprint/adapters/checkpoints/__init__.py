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

from fingerprint.adapters.checkpoints.garbage import GRACE_SECONDS, Policy
from fingerprint.adapters.checkpoints.manifest import Damaged, check
from fingerprint.adapters.checkpoints.object_store import open_store
from fingerprint.adapters.checkpoints.paths import fence_of, is_topic, part_stored, topic_folder
from fingerprint.adapters.checkpoints.store import Shelf, Summary
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Fence, NotOwner, Partition, Snapshot
from fingerprint.core.settings import State


class StoredSnapshots:
    """Keeps the protocol `Snapshots`. Partitions may be used from several threads, each from one at a time.

    `grace_seconds`: what was written less long ago is never deleted, so saving must not take so long.
    """

    def __init__(self, settings: State, grace_seconds: float = GRACE_SECONDS):
        self._url = settings.snapshots
        self._store = open_store(settings.snapshots)
        self._policy = Policy(settings.snapshots_kept, grace_seconds)
        self._shelves: dict[Partition, Shelf] = {}

    def save(self, snapshot: Snapshot) -> None:
        check(snapshot)
        with self._said("cannot save a snapshot"):
            self._shelf(snapshot.partition).save(snapshot)

    def latest(self, partition: Partition) -> Snapshot | None:
        with self._said("cannot read a snapshot"):
            return self._shelf(partition).latest()

    def fence(self, partition: Partition, generation: int) -> Fence:
        with self._said("cannot list snapshots"):
            return self._shelf(partition).fence(generation)

    def partitions(self, topic: str) -> list[Partition]:
        folder = topic_folder(topic)
        with self._said("cannot list snapshots"):
            names = [name for name in self._store.folders(folder) if name.isascii() and name.isdigit()]
            there = [int(name) for name in names if any(map(fence_of, self._store.files(f"{folder}/{name}")))]
        return [Partition(topic, number) for number in sorted(there)]

    def summaries(self) -> list[Summary]:
        """One for each partition of each topic that has a snapshot, for people to look at."""
        with self._said("cannot list snapshots"):
            topics = [name for name in sorted(self._store.folders("")) if is_topic(name)]
            found = [self._shelf(home).summary() for topic in topics for home in self.partitions(topic)]
        return [each for each in found if each]

    def put(self, partition: Partition, part: bytes) -> str:
        with self._said("cannot store a part"):
            return self._shelf(partition).put(part)

    def get(self, name: str) -> bytes:
        partition, part = part_stored(name)
        with self._said(f"cannot read part {name}"):
            try:
                return self._shelf(partition).get(part)
            except Damaged as reason:
                raise FingerprintError(
                    f"part {name} of the snapshots {self._url} is damaged: {reason}"
                ) from None
            except FileNotFoundError:
                raise FingerprintError(f"part {name} of the snapshots {self._url} is missing") from None

    def _shelf(self, partition: Partition) -> Shelf:
        if partition not in self._shelves:
            self._shelves[partition] = Shelf(self._store, partition, self._policy)
        return self._shelves[partition]

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        """The store's errors in one sentence."""
        try:
            yield
        except (FingerprintError, NotOwner):
            raise
        except Exception as error:  # each object store raises its own kinds
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise FingerprintError(f"snapshots {self._url}: {what} ({reason})") from error
