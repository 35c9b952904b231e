"""Where files of snapshots lie: a folder, or an object store behind fsspec. The same few verbs for both.

Example:
    >>> store = open_store("s3://bucket/snapshots")
    >>> store.write("events/3/parts/abc", b"...")
    >>> store.claim("events/3/manifest-1.json", b"{}")     # FileExistsError if somebody has

A file is there whole or not at all, and safe when the call returns. In a folder: written under another name, synced,
moved, and the folder synced. An object is whole by nature. Errors are the store's own, of any kind.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from fingerprint.adapters.checkpoints.paths import STAGED
from fingerprint.core import private_files
from fingerprint.core.alert import FingerprintError
from fingerprint.core.extras import how_to_install

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
MOMENTS = ("mtime", "LastModified", "last_modified", "updated", "created")  # what stores call it


class File(NamedTuple):
    """`moment`: when it was written, in seconds since 1970, by the store's own clock; infinity if it does not say."""

    size: int
    moment: float


class Store(Protocol):
    """Paths are relative to its root, with `/`."""

    def files(self, folder: str) -> dict[str, File]:
        """Those that lie in a folder itself, by name; none if there is no such folder."""
        ...

    def folders(self, folder: str) -> list[str]:
        """Names of the folders in a folder."""
        ...

    def size(self, path: str) -> int: ...

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, data: bytes) -> None: ...

    def claim(self, path: str, data: bytes) -> None:
        """Write what must not be there yet; FileExistsError if it is. One of many who try at once succeeds."""
        ...

    def delete(self, path: str) -> None:
        """It is not there afterwards, whether or not it was before."""
        ...


def open_store(url: str) -> Store:
    """FingerprintError if the URL is of a kind that nothing here opens."""
    try:
        system, path = url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        raise FingerprintError(f"state.snapshots {url}: {error}; {how_to_install('s3')} is for S3") from None
    except ValueError as error:
        raise FingerprintError(f"state.snapshots {url}: {error}") from None
    return Folder(Path(path)) if isinstance(system, LocalFileSystem) else Objects(system, path)


class Folder:
    """On this machine."""

    def __init__(self, root: Path):
        self._root = root

    def files(self, folder: str) -> dict[str, File]:
        found: dict[str, File] = {}
        with suppress(FileNotFoundError), os.scandir(self._root / folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # deleted meanwhile
                    found |= {entry.name: _file(entry.stat())} if entry.is_file() else {}
        return found

    def folders(self, folder: str) -> list[str]:
        with suppress(FileNotFoundError), os.scandir(self._root / folder) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
        return []

    def size(self, path: str) -> int:
        return (self._root / path).stat().st_size

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        self._place(self._root / path, data, os.replace)

    def claim(self, path: str, data: bytes) -> None:
        self._place(self._root / path, data, _link)

    def delete(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def _place(self, final: Path, data: bytes, move: Callable[[Path, Path], None]) -> None:
        _make(final.parent)
        staged = final.with_name(STAGED + secrets.token_hex(8))
        try:
            with open(staged, "xb", opener=private_files.opener) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            move(staged, final)
        finally:
            staged.unlink(missing_ok=True)
        _sync(final.parent)


def _file(status: os.stat_result) -> File:
    return File(status.st_size, status.st_mtime)


def _make(folder: Path) -> None:
    """A folder that survives a loss of power, and those it lies in."""
    for each in private_files.make_folder(folder):
        _sync(each.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _link(staged: Path, final: Path) -> None:
    """Moving replaces what is there; linking does not. Some network file systems cannot link."""
    try:
        os.link(staged, final)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if final.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(final)) from None
        staged.replace(final)


class Objects:
    """In an object store, or whatever else fsspec reaches. What is listed is asked for anew each time."""

    def __init__(self, system: fsspec.AbstractFileSystem, root: str):
        self._system = system
        self._root = root.rstrip("/")

    def files(self, folder: str) -> dict[str, File]:
        return {
            _last(info["name"]): File(int(info["size"] or 0), self._moment(info))
            for info in self._listed(folder)
            if info["type"] == "file"
        }

    def folders(self, folder: str) -> list[str]:
        return [_last(info["name"]) for info in self._listed(folder) if info["type"] == "directory"]

    def size(self, path: str) -> int:
        return int(self._system.size(self._at(path)))

    def read(self, path: str) -> bytes:
        return bytes(self._system.cat_file(self._at(path)))

    def write(self, path: str, data: bytes) -> None:
        self._system.pipe_file(self._at(path), data)

    def claim(self, path: str, data: bytes) -> None:
        self._system.pipe_file(self._at(path), data, mode="create")

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._system.rm_file(self._at(path))

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _listed(self, folder: str) -> list[dict[str, Any]]:
        self._system.invalidate_cache(self._at(folder))
        with suppress(FileNotFoundError):
            return list(self._system.ls(self._at(folder), detail=True))
        return []

    def _moment(self, info: dict[str, Any]) -> float:
        said = next((info[key] for key in MOMENTS if info.get(key) is not None), None)
        if isinstance(said, datetime):
            return said.timestamp()
        return float(said) if isinstance(said, int | float) else float("inf")


def _last(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]
