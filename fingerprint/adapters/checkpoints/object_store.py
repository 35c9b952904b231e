"""The files of checkpoints, in a folder or in an object store behind fsspec, with the same few verbs for both.

Example:
    >>> store = open_file_store("s3://bucket/checkpoints")
    >>> store.write("events/3/parts/abc", b"...")
    >>> store.create_exclusive("events/3/manifest-1.json", b"{}")     # FileExistsError if it is there

A write is atomic, and durable when the call returns. In a folder, a file is written under another name, synced and moved, and the
folder is synced; writes of objects are atomic anyway. Errors are the store's own, of any kind.

`obstore` is not used: its LocalStore (0.12) never syncs a file and creates it readable to all, so we would still need our folder
store. For object stores, fsspec's conditional put does the same, and reading logs needs fsspec's clients anyway.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from fingerprint.core import private_files
from fingerprint.core.errors import FingerprintError
from fingerprint.core.extras import how_to_install

LINK_UNSUPPORTED_ERRNOS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
MODIFIED_KEYS = ("mtime", "LastModified", "last_modified", "updated", "created")  # in the order of preference


class StoredFile(NamedTuple):
    """A file's size in bytes, and when it was written.

    `modified_at` is in seconds since 1970 by the store's own clock, infinity if the store does not say.
    """

    size: int
    modified_at: float


class FileStore(Protocol):
    """A store of files. Paths are relative to its root, with `/`."""

    def list_files(self, folder: str) -> dict[str, StoredFile]:
        """Return the files directly in a folder, by name; none if there is no such folder."""
        ...

    def list_folders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder."""
        ...

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        ...

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write a file; replace it if it is there."""
        ...

    def create_exclusive(self, path: str, data: bytes) -> None:
        """Write a file that is not there yet; raise FileExistsError if it is. One of several concurrent callers succeeds."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""
        ...


def open_file_store(url: str) -> FileStore:
    """Return the store of a URL. Raise FingerprintError for a URL that fsspec cannot open."""
    try:
        system, path = url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        raise FingerprintError(f"checkpoints.url {url}: {error}; {how_to_install('s3')} is for S3") from None
    except ValueError as error:
        raise FingerprintError(f"checkpoints.url {url}: {error}") from None
    return FolderStore(Path(path)) if isinstance(system, LocalFileSystem) else FsspecStore(system, path)


class FolderStore:
    """A folder of this machine, or of a file system that it mounts."""

    def __init__(self, root: Path):
        self._root = root

    def list_files(self, folder: str) -> dict[str, StoredFile]:
        """Return the files directly in a folder, by name."""
        found: dict[str, StoredFile] = {}
        with suppress(FileNotFoundError), os.scandir(self._root / folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # deleted since
                    found |= {entry.name: _to_stored_file(entry.stat())} if entry.is_file() else {}
        return found

    def list_folders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder."""
        with suppress(FileNotFoundError), os.scandir(self._root / folder) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
        return []

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        return (self._root / path).stat().st_size

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return (self._root / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """Write a file durably; replace it if it is there."""
        self._write_staged(self._root / path, data, os.replace)

    def create_exclusive(self, path: str, data: bytes) -> None:
        """Write a new file durably, by a hard link."""
        self._write_staged(self._root / path, data, _link_exclusive)

    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""
        (self._root / path).unlink(missing_ok=True)

    def _write_staged(self, final: Path, data: bytes, publish: Callable[[Path, Path], None]) -> None:
        _make_durable_folder(final.parent)
        private_files.replace_file(final, lambda staged: staged.write_bytes(data), publish=publish)


def _to_stored_file(status: os.stat_result) -> StoredFile:
    return StoredFile(status.st_size, status.st_mtime)


def _make_durable_folder(folder: Path) -> None:
    """Create a folder and those above it, so that they survive a loss of power."""
    for each in private_files.make_private_folder(folder):
        private_files.sync(each.parent)


def _link_exclusive(staged: Path, final: Path) -> None:
    """Publish a staged file: linking, unlike moving, replaces nothing. Some network file systems cannot link."""
    try:
        os.link(staged, final)
    except OSError as error:
        if error.errno not in LINK_UNSUPPORTED_ERRNOS:
            raise
        if final.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(final)) from None
        staged.replace(final)


class FsspecStore:
    """An object store, or any other file system of fsspec. Lists are never cached."""

    def __init__(self, system: fsspec.AbstractFileSystem, root: str):
        self._system = system
        self._root = root.rstrip("/")

    def list_files(self, folder: str) -> dict[str, StoredFile]:
        """Return the objects directly below a prefix, by name."""
        return {
            _last_component(info["name"]): StoredFile(int(info["size"] or 0), self._modified_at(info))
            for info in self._list_entries(folder)
            if info["type"] == "file"
        }

    def list_folders(self, folder: str) -> list[str]:
        """Return the next part of the prefixes below a prefix."""
        return [
            _last_component(info["name"])
            for info in self._list_entries(folder)
            if info["type"] == "directory"
        ]

    def size(self, path: str) -> int:
        """Return the bytes of an object."""
        return int(self._system.size(self._full_path(path)))

    def read(self, path: str) -> bytes:
        """Return the content of an object."""
        return bytes(self._system.cat_file(self._full_path(path)))

    def write(self, path: str, data: bytes) -> None:
        """Write an object; replace it if it is there."""
        self._system.pipe_file(self._full_path(path), data)

    def create_exclusive(self, path: str, data: bytes) -> None:
        """Write a new object, by a conditional put."""
        self._system.pipe_file(self._full_path(path), data, mode="create")

    def delete(self, path: str) -> None:
        """Delete an object, if it is there."""
        with suppress(FileNotFoundError):
            self._system.rm_file(self._full_path(path))

    def _full_path(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _list_entries(self, folder: str) -> list[dict[str, Any]]:
        self._system.invalidate_cache(self._full_path(folder))
        with suppress(FileNotFoundError):
            return list(self._system.ls(self._full_path(folder), detail=True))
        return []

    def _modified_at(self, info: dict[str, Any]) -> float:
        modified = next((info[key] for key in MODIFIED_KEYS if info.get(key) is not None), None)
        if isinstance(modified, datetime):
            return modified.timestamp()
        return float(modified) if isinstance(modified, int | float) else float("inf")


def _last_component(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]
