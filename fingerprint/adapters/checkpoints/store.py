"""The checkpoints of one partition.

Example:
    >>> checkpoints = PartitionCheckpoints(store, Partition("events", 3), RetentionPolicy())
    >>> checkpoints.save(checkpoint)
    >>> checkpoints.latest() == checkpoint
    True

The process remembers which parts exist, only to save work: without that, it writes all parts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, TypeVar

from fingerprint.adapters.checkpoints.garbage import Garbage, PartitionListing, RetentionPolicy, find_garbage
from fingerprint.adapters.checkpoints.manifest import (
    MAX_MANIFEST_BYTES,
    PARTS_FOLDER,
    CheckpointCorrupted,
    Manifest,
    blob_path,
    content_id,
    content_id_of_part,
    decode_manifest,
    encode_manifest,
    manifest_name,
    new_part_name,
    parse_blob_path,
    parse_manifest_name,
    part_size,
    partition_folder,
)
from fingerprint.adapters.checkpoints.object_store import FileStore
from fingerprint.core import private_files
from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports.checkpoint_store import Checkpoint, Fence
from fingerprint.core.ports.message_stream import Partition, PartitionNotOwned

MAX_PARALLEL = 4  # parts read, written or hashed at a time: all of them wait, or let go of the interpreter
MAX_DELETIONS = 500  # files, by one save

_log = get_logger("fingerprint.checkpoints")
_In = TypeVar("_In")
_Out = TypeVar("_Out")


class CheckpointSummary(NamedTuple):
    """Figures of the latest checkpoint of a partition.

    `written_at` is in seconds since 1970 by the store's clock, `size_bytes` includes referenced parts, `checkpoint_count` is the
    number of the partition's checkpoints.
    """

    partition: Partition
    offset: int
    fence: Fence
    written_at: float
    size_bytes: int
    checkpoint_count: int


class PartitionCheckpoints:
    """The checkpoints of one partition, used by one thread at a time."""

    def __init__(self, store: FileStore, partition: Partition, policy: RetentionPolicy):
        self._store = store
        self._partition = partition
        self._policy = policy
        self._folder = partition_folder(partition)
        # content -> name, of the newest checkpoint saved or opened here
        self._known_parts: dict[str, str] = {}
        self._referenced_parts: dict[Fence, frozenset[str]] = {}  # parts that a manifest names

    def list_files(self) -> PartitionListing:
        """Return the partition's files."""
        files = self._store.list_files(self._folder)
        parts = self._store.list_files(f"{self._folder}/{PARTS_FOLDER}")
        return PartitionListing(
            {fence: file for name, file in files.items() if (fence := parse_manifest_name(name)) is not None},
            {name: file for name, file in parts.items() if content_id_of_part(name)},
            {
                name: file
                for name, file in (files | parts).items()
                if name.startswith(private_files.STAGING_PREFIX)
            },
        )

    def save(self, checkpoint: Checkpoint) -> None:
        """Save a checkpoint, in four steps.

        1. List the files. Refuse if there is a checkpoint with this fence or a higher one; find the known parts that still exist.
        2. Write the missing parts.
        3. Write the manifest: from here on this is the latest checkpoint.
        4. Delete files that no checkpoint needs any longer; if that fails, the next save does it.
        """
        there = self.list_files()
        _check_fence_is_newest(checkpoint, there)
        _check_referenced_blobs(checkpoint, there)
        names, fresh = self._assign_files(checkpoint.blobs, there)
        manifest = Manifest(
            checkpoint.partition,
            checkpoint.offset,
            checkpoint.fence,
            checkpoint.metadata,
            names,
            checkpoint.referenced_blobs,
        )
        self._write_checkpoint(manifest, fresh)
        self._update_known_parts(manifest)
        self._collect_garbage(there, checkpoint.fence)

    def _assign_files(
        self, parts: Mapping[str, bytes], there: PartitionListing
    ) -> tuple[dict[str, str], dict[str, bytes]]:
        """Return the file of each part, and the content of missing files; equal parts share a file."""
        contents = dict(zip(parts, _run_parallel(content_id, parts.values()), strict=True))
        known = {content: name for content, name in self._known_parts.items() if _is_present(name, there)}
        fresh = {content: new_part_name(content) for content in contents.values() if content not in known}
        names = {part: (known | fresh)[content] for part, content in contents.items()}
        return names, {names[part]: parts[part] for part, content in contents.items() if content in fresh}

    def _write_checkpoint(self, manifest: Manifest, parts: Mapping[str, bytes]) -> None:
        """Write the parts, then the manifest; if it fails, leave nothing behind."""
        data = encode_manifest(manifest)
        try:
            _run_parallel(lambda name: self._store.write(self._part_path(name), parts[name]), parts)
            self._create_manifest(manifest.fence, data)
        except Exception:
            self._remove_failed_write(manifest.fence, data, parts)
            raise

    def _create_manifest(self, fence: Fence, data: bytes) -> None:
        try:
            self._store.create_exclusive(self._manifest_path(fence), data)
        except FileExistsError:
            if (
                self._store.read(self._manifest_path(fence)) != data
            ):  # else: sent again, its first answer was lost
                raise PartitionNotOwned(f"{self._folder}: another owner has saved {fence}") from None

    def _remove_failed_write(self, fence: Fence, data: bytes, parts: Iterable[str]) -> None:
        """Delete the parts of a failed save, so that they do not fill the disk.

        They stay if the manifest arrived after all, or if the store does not answer; then garbage collection removes them.
        """
        with suppress(Exception):
            if self._read_manifest_bytes(fence) != data:
                for name in parts:
                    self._store.delete(self._part_path(name))

    def _read_manifest_bytes(self, fence: Fence) -> bytes | None:
        with suppress(FileNotFoundError):
            return self._store.read(self._manifest_path(fence))
        return None

    def _update_known_parts(self, manifest: Manifest) -> None:
        self._known_parts = {name.rsplit("-", 1)[0]: name for name in manifest.blob_files.values()}
        self._referenced_parts[manifest.fence] = manifest.files

    def _collect_garbage(self, there: PartitionListing, saved: Fence) -> None:
        try:
            garbage = find_garbage(there, self._parts_of, saved, self._policy)
            paths = self._garbage_paths(garbage)
            for path in paths[:MAX_DELETIONS]:
                self._store.delete(path)
            self._referenced_parts = {
                fence: self._referenced_parts[fence]
                for fence in [*there.manifests, saved]
                if fence in self._referenced_parts
            }
        except Exception as error:  # each object store raises its own kinds, and none is worth a checkpoint
            _log.warning("old checkpoints could not be deleted", folder=self._folder, reason=str(error))

    def _garbage_paths(self, garbage: Garbage) -> list[str]:
        """Return the paths to delete, manifests first, so that a partly deleted checkpoint does not look like a whole one."""
        staged = [
            f"{self._folder}/{place}{name}" for name in garbage.staged for place in ("", f"{PARTS_FOLDER}/")
        ]
        return [*map(self._manifest_path, garbage.manifests), *map(self._part_path, garbage.parts), *staged]

    def _parts_of(self, fence: Fence) -> frozenset[str] | None:
        if fence not in self._referenced_parts:
            try:
                self._referenced_parts[fence] = self._open_manifest(
                    fence, self._store.size(self._manifest_path(fence))
                ).files
            except (CheckpointCorrupted, FileNotFoundError):
                return None
        return self._referenced_parts[fence]

    def latest(self) -> Checkpoint | None:
        """Return the intact checkpoint with the highest fence, or None."""
        return self._newest_intact(self._open_checkpoint)

    def summary(self) -> CheckpointSummary | None:
        """Return the figures of the latest checkpoint, without reading its parts; None if there is none."""
        return self._newest_intact(self._summarize)

    def _newest_intact(self, open_checkpoint: Callable[[Fence, PartitionListing], _Out]) -> _Out | None:
        """Return the result of `open_checkpoint` for the highest intact fence; None if there is no checkpoint."""
        there = self.list_files()
        for fence in there.newest_first():
            try:
                return open_checkpoint(fence, there)
            except (CheckpointCorrupted, FileNotFoundError) as reason:
                _log.warning(
                    "a damaged checkpoint is passed over", file=self._manifest_path(fence), reason=str(reason)
                )
        if there.manifests:
            raise FingerprintError(
                f"none of the {len(there.manifests)} checkpoints in {self._folder} is whole: bring them back from a backup, "
                "or move that folder away to begin without what was remembered"
            )
        return None

    def next_fence(self, generation: int) -> Fence:
        """Return the first fence of an owner of this generation, above all that are there."""
        highest = max(self.list_files().manifests, default=None)
        return highest.for_owner(generation) if highest else Fence(generation=generation)

    def _open_checkpoint(self, fence: Fence, there: PartitionListing) -> Checkpoint:
        manifest = self._require_complete(fence, there)
        parts = dict(
            zip(
                manifest.blob_files, _run_parallel(self._read_part, manifest.blob_files.values()), strict=True
            )
        )
        self._update_known_parts(manifest)
        return Checkpoint(
            self._partition,
            manifest.offset,
            manifest.fence,
            manifest.metadata,
            parts,
            manifest.referenced_blobs,
        )

    def _summarize(self, fence: Fence, there: PartitionListing) -> CheckpointSummary:
        manifest = self._require_complete(fence, there)
        size = sum(map(part_size, manifest.files))
        moment = there.manifests[fence].modified_at
        return CheckpointSummary(self._partition, manifest.offset, fence, moment, size, len(there.manifests))

    def _require_complete(self, fence: Fence, there: PartitionListing) -> Manifest:
        """Return the manifest of a fence; raise CheckpointCorrupted if a part is missing or has another size."""
        manifest = self._open_manifest(fence, there.manifests[fence].size)
        for name in sorted(manifest.files):
            _check_size(name, there)
        return manifest

    def _open_manifest(self, fence: Fence, size: int) -> Manifest:
        if size > MAX_MANIFEST_BYTES:
            raise CheckpointCorrupted(f"it has {size:,} bytes, and no manifest has")
        manifest = decode_manifest(self._store.read(self._manifest_path(fence)))
        if (manifest.partition, manifest.fence) != (self._partition, fence):
            raise CheckpointCorrupted("it is another checkpoint's")
        return manifest

    def _read_part(self, name: str) -> bytes:
        data = self._store.read(self._part_path(name))
        if content_id(data) != content_id_of_part(name):
            raise CheckpointCorrupted(f"part {name} is not what was written")
        return data

    def put_blob(self, blob: bytes) -> str:
        """Store a part; return its path."""
        name = new_part_name(content_id(blob))
        self._store.write(self._part_path(name), blob)
        return blob_path(self._partition, name)

    def get_blob(self, name: str) -> bytes:
        """Return a stored part. Raise CheckpointCorrupted or FileNotFoundError if it is not intact."""
        if (size := self._store.size(self._part_path(name))) != part_size(name):
            raise CheckpointCorrupted(f"it has {size:,} bytes")
        return self._read_part(name)

    def _part_path(self, name: str) -> str:
        return f"{self._folder}/{PARTS_FOLDER}/{name}"

    def _manifest_path(self, fence: Fence) -> str:
        return f"{self._folder}/{manifest_name(fence)}"


def _check_fence_is_newest(checkpoint: Checkpoint, there: PartitionListing) -> None:
    highest = max(there.manifests, default=None)
    if highest and highest >= checkpoint.fence:
        raise PartitionNotOwned(
            f"{partition_folder(checkpoint.partition)}: {highest} is there, and {checkpoint.fence} comes too late"
        )


def _check_referenced_blobs(checkpoint: Checkpoint, there: PartitionListing) -> None:
    for path in checkpoint.referenced_blobs:
        partition, name = parse_blob_path(path)
        if partition != checkpoint.partition or name not in there.parts:
            raise FingerprintError(
                f"part {path} is not with the checkpoints of {partition_folder(checkpoint.partition)}: "
                "state that was stored is missing"
            )


def _is_present(name: str, there: PartitionListing) -> bool:
    return name in there.parts and there.parts[name].size == part_size(name)


def _check_size(name: str, there: PartitionListing) -> None:
    """Raise CheckpointCorrupted for a missing part, or one of another size: it is not read, so it cannot fill the memory."""
    if name not in there.parts:
        raise CheckpointCorrupted(f"part {name} is missing")
    if there.parts[name].size != part_size(name):
        raise CheckpointCorrupted(f"part {name} has {there.parts[name].size:,} bytes")


def _run_parallel(work: Callable[[_In], _Out], items: Iterable[_In]) -> list[_Out]:
    """Return the results in order; raise an error when all have ended."""
    with ThreadPoolExecutor(MAX_PARALLEL) as pool:
        return list(pool.map(work, items))
