"""The snapshots of one partition, and what this process knows of them.

Example:
    >>> shelf = Shelf(store, Partition("events", 3), Policy())
    >>> shelf.save(snapshot)
    >>> shelf.latest() == snapshot
    True

What it knows only spares work (which parts lie there already): forgotten, everything is written again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, TypeVar

from fingerprint.adapters.checkpoints.garbage import Garbage, Policy, There, rest
from fingerprint.adapters.checkpoints.manifest import MOST_BYTES, Damaged, Manifest, pack, unpack
from fingerprint.adapters.checkpoints.object_store import Store
from fingerprint.adapters.checkpoints.paths import (
    PARTS,
    STAGED,
    bytes_named,
    content_named,
    content_of,
    fence_of,
    folder_of,
    fresh_name,
    manifest_name,
    part_stored,
    stored_at,
)
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Fence, NotOwner, Partition, Snapshot

AT_ONCE = 4  # parts read, written or hashed at a time: all of them wait, or let go of the interpreter
MOST_DELETED = 500  # files, by one save

_log = logging.getLogger("fingerprint.snapshots")
_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Summary(NamedTuple):
    """The latest snapshot of a partition: `written` in seconds since 1970 by the store's clock, `bytes` with what is kept,
    `snapshots` there are."""

    partition: Partition
    offset: int
    fence: Fence
    written: float
    bytes: int
    snapshots: int


class Shelf:
    """See the head of this file."""

    def __init__(self, store: Store, partition: Partition, policy: Policy):
        self._store = store
        self._partition = partition
        self._policy = policy
        self._folder = folder_of(partition)
        self._known: dict[str, str] = {}  # content -> name, of the newest snapshot saved or opened here
        self._named: dict[Fence, frozenset[str]] = {}  # parts that a manifest names

    def look(self) -> There:
        files = self._store.files(self._folder)
        parts = self._store.files(f"{self._folder}/{PARTS}")
        return There(
            {fence: file for name, file in files.items() if (fence := fence_of(name)) is not None},
            {name: file for name, file in parts.items() if content_named(name)},
            {name: file for name, file in (files | parts).items() if name.startswith(STAGED)},
        )

    def save(self, snapshot: Snapshot) -> None:
        """1. Look: is there a snapshot of this fence, or of a higher one? Which known parts are still there?
        2. Write the parts that are not.
        3. Write the manifest: from here on this is the latest snapshot.
        4. Delete what no snapshot needs any more; if that fails, the next save does it.
        """
        there = self.look()
        _refuse_late(snapshot, there)
        _refuse_missing(snapshot, there)
        names, fresh = self._placed(snapshot.parts, there)
        manifest = Manifest(
            snapshot.partition, snapshot.offset, snapshot.fence, snapshot.about, names, snapshot.kept
        )
        self._write(manifest, fresh)
        self._remember(manifest)
        self._tidy(there, snapshot.fence)

    def _placed(self, parts: Mapping[str, bytes], there: There) -> tuple[dict[str, str], dict[str, bytes]]:
        """The file of each part, and the content of those files that are not there yet; equal parts share one."""
        contents = dict(zip(parts, _at_once(content_of, parts.values()), strict=True))
        known = {content: name for content, name in self._known.items() if _is_there(name, there)}
        fresh = {content: fresh_name(content) for content in contents.values() if content not in known}
        names = {part: (known | fresh)[content] for part, content in contents.items()}
        return names, {names[part]: parts[part] for part, content in contents.items() if content in fresh}

    def _write(self, manifest: Manifest, parts: Mapping[str, bytes]) -> None:
        """Parts, then the manifest; if it fails, nothing is left behind."""
        data = pack(manifest)
        try:
            _at_once(lambda name: self._store.write(self._part(name), parts[name]), parts)
            self._claim(manifest.fence, data)
        except Exception:
            self._withdraw(manifest.fence, data, parts)
            raise

    def _claim(self, fence: Fence, data: bytes) -> None:
        try:
            self._store.claim(self._manifest(fence), data)
        except FileExistsError:
            if self._store.read(self._manifest(fence)) != data:  # else: sent again, its first answer was lost
                raise NotOwner(f"{self._folder}: another owner has saved {fence}") from None

    def _withdraw(self, fence: Fence, data: bytes, parts: Iterable[str]) -> None:
        """A full disk must not fill with parts of what failed. Left alone where the manifest arrived after all, or where
        the store does not say: then they go with the garbage."""
        with suppress(Exception):
            if self._stored(fence) != data:
                for name in parts:
                    self._store.delete(self._part(name))

    def _stored(self, fence: Fence) -> bytes | None:
        with suppress(FileNotFoundError):
            return self._store.read(self._manifest(fence))
        return None

    def _remember(self, manifest: Manifest) -> None:
        self._known = {name.rsplit("-", 1)[0]: name for name in manifest.parts.values()}
        self._named[manifest.fence] = manifest.files

    def _tidy(self, there: There, saved: Fence) -> None:
        try:
            garbage = rest(there, self._names_in, saved, self._policy)
            paths = self._paths(garbage)
            for path in paths[:MOST_DELETED]:
                self._store.delete(path)
            self._named = {
                fence: self._named[fence] for fence in [*there.manifests, saved] if fence in self._named
            }
        except Exception as error:  # each object store raises its own kinds, and none is worth a snapshot
            _log.warning(
                "old snapshots could not be deleted",
                extra={"fields": {"folder": self._folder, "reason": str(error)}},
            )

    def _paths(self, garbage: Garbage) -> list[str]:
        """Manifests first: what is left of a snapshot must not look like one."""
        staged = [f"{self._folder}/{place}{name}" for name in garbage.staged for place in ("", f"{PARTS}/")]
        return [*map(self._manifest, garbage.manifests), *map(self._part, garbage.parts), *staged]

    def _names_in(self, fence: Fence) -> frozenset[str] | None:
        if fence not in self._named:
            try:
                self._named[fence] = self._open_manifest(fence, self._store.size(self._manifest(fence))).files
            except (Damaged, FileNotFoundError):
                return None
        return self._named[fence]

    def latest(self) -> Snapshot | None:
        return self._newest(self._open)

    def summary(self) -> Summary | None:
        """Of the latest snapshot, its parts weighed and not read."""
        return self._newest(self._summed)

    def _newest(self, opened: Callable[[Fence, There], _Out]) -> _Out | None:
        """Of the highest fence that opens."""
        there = self.look()
        for fence in there.newest_first():
            try:
                return opened(fence, there)
            except (Damaged, FileNotFoundError) as reason:
                _log.warning(
                    "a damaged snapshot is passed over",
                    extra={"fields": {"file": self._manifest(fence), "reason": str(reason)}},
                )
        if there.manifests:
            raise FingerprintError(
                f"none of the {len(there.manifests)} snapshots in {self._folder} is whole: bring them back from a backup, "
                "or move that folder away to begin without what was remembered"
            )
        return None

    def fence(self, generation: int) -> Fence:
        highest = max(self.look().manifests, default=None)
        return highest.owned(generation) if highest else Fence(generation=generation)

    def _open(self, fence: Fence, there: There) -> Snapshot:
        manifest = self._complete(fence, there)
        parts = dict(zip(manifest.parts, _at_once(self._read, manifest.parts.values()), strict=True))
        self._remember(manifest)
        return Snapshot(
            self._partition, manifest.offset, manifest.fence, manifest.about, parts, manifest.kept
        )

    def _summed(self, fence: Fence, there: There) -> Summary:
        manifest = self._complete(fence, there)
        size = sum(map(bytes_named, manifest.files))
        moment = there.manifests[fence].moment
        return Summary(self._partition, manifest.offset, fence, moment, size, len(there.manifests))

    def _complete(self, fence: Fence, there: There) -> Manifest:
        """Whose parts are all there, and as large as they were."""
        manifest = self._open_manifest(fence, there.manifests[fence].size)
        for name in sorted(manifest.files):
            _check_size(name, there)
        return manifest

    def _open_manifest(self, fence: Fence, size: int) -> Manifest:
        if size > MOST_BYTES:
            raise Damaged(f"it has {size:,} bytes, and no manifest has")
        manifest = unpack(self._store.read(self._manifest(fence)))
        if (manifest.partition, manifest.fence) != (self._partition, fence):
            raise Damaged("it is another snapshot's")
        return manifest

    def _read(self, name: str) -> bytes:
        data = self._store.read(self._part(name))
        if content_of(data) != content_named(name):
            raise Damaged(f"part {name} is not what was written")
        return data

    def put(self, part: bytes) -> str:
        name = fresh_name(content_of(part))
        self._store.write(self._part(name), part)
        return stored_at(self._partition, name)

    def get(self, name: str) -> bytes:
        """Damaged or FileNotFoundError if it is not whole."""
        if (size := self._store.size(self._part(name))) != bytes_named(name):
            raise Damaged(f"it has {size:,} bytes")
        return self._read(name)

    def _part(self, name: str) -> str:
        return f"{self._folder}/{PARTS}/{name}"

    def _manifest(self, fence: Fence) -> str:
        return f"{self._folder}/{manifest_name(fence)}"


def _refuse_late(snapshot: Snapshot, there: There) -> None:
    highest = max(there.manifests, default=None)
    if highest and highest >= snapshot.fence:
        raise NotOwner(
            f"{folder_of(snapshot.partition)}: {highest} is there, and {snapshot.fence} comes too late"
        )


def _refuse_missing(snapshot: Snapshot, there: There) -> None:
    for path in snapshot.kept:
        partition, name = part_stored(path)
        if partition != snapshot.partition or name not in there.parts:
            raise FingerprintError(
                f"part {path} is not with the snapshots of {folder_of(snapshot.partition)}: state that was stored is missing"
            )


def _is_there(name: str, there: There) -> bool:
    return name in there.parts and there.parts[name].size == bytes_named(name)


def _check_size(name: str, there: There) -> None:
    """Before it is read: what is damaged must not fill the memory."""
    if name not in there.parts:
        raise Damaged(f"part {name} is missing")
    if there.parts[name].size != bytes_named(name):
        raise Damaged(f"part {name} has {there.parts[name].size:,} bytes")


def _at_once(work: Callable[[_In], _Out], items: Iterable[_In]) -> list[_Out]:
    """The results in order; an error when all have ended."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, items))
