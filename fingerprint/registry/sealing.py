"""The files of one folder, opened once: the bytes that are checked are those that are read, and later changes are found.

Example:
    >>> files = VerifiedFolder(Path("bank/versions/2026-02-01-5b3c0a1e"))
    >>> files.names
    ['fingerprints.parquet', 'manifest.json', 'people.parquet', ...]
    >>> files.sha256("scorer_state.safetensors") == manifest["files"]["scorer_state.safetensors"]["sha256"]
    True
    >>> files.changed_files()                             # later, while its arrays are mapped
    []

Links are not followed, and a file is never opened a second time, so moving another file into its place has no effect. Writing
into the file itself changes the pages of a map that were not read yet. So the time of its last change is kept, which no writer
can set (`st_ctime_ns`), and a file that was touched since is hashed again.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from fingerprint.core.errors import FingerprintError

CLOCK_GRANULARITY_NS = 2_000_000_000  # two changes within this time may have the same time of change


class VerifiedFolder:
    """A folder and its files, which stay open as long as this object lives. Not safe for several threads."""

    def __init__(self, root: Path) -> None:
        """Open the folder. Raises FingerprintError if it is a link or not a folder."""
        self.root = root
        self._opened: dict[str, int] = {}
        self._hashes: dict[str, str] = {}
        self._contents: dict[str, bytes] = {}
        # By name: the time of change that the hash belongs to, 0 to hash again
        self._touched: dict[str, int] = {}
        with self._reporting_errors(root):
            self._folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            weakref.finalize(self, _close, self._folder, self._opened)
            self.names = sorted(os.listdir(self._folder))

    def descriptor(self, name: str) -> int:
        """Return the descriptor of a file, open for reading. Raises FingerprintError if it is missing or not a plain file."""
        if name not in self._opened:
            file = self.root / name
            with self._reporting_errors(file):
                # NONBLOCK: opening a pipe must not wait for its writer
                opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._folder)
                if not stat.S_ISREG(os.fstat(opened).st_mode):
                    os.close(opened)
                    raise FingerprintError(f"{file} is no plain file: remove it")
                self._opened[name] = opened
        return self._opened[name]

    def open_stream(self, name: str) -> BufferedReader:
        """Return a stream from the beginning of a file. The caller closes it; the descriptor stays open."""
        os.lseek(self.descriptor(name), 0, os.SEEK_SET)
        return os.fdopen(self.descriptor(name), "rb", closefd=False)

    def read_content(self, name: str, max_bytes: int) -> bytes:
        """Return the content of a small file, as it was at the first call. Raises ValueError if it exceeds `max_bytes`."""
        if name not in self._contents:
            if self.size(name) > max_bytes:
                raise ValueError(f"{name} is longer than {max_bytes:,} bytes")
            with self.open_stream(name) as stream:
                self._contents[name] = stream.read(max_bytes)
        return self._contents[name]

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        return os.fstat(self.descriptor(name)).st_size

    def sha256(self, name: str) -> str:
        """Return the hash of a file in hex, computed once, and again only after `changed_files` found that it was touched."""
        if name not in self._hashes:
            before = os.fstat(self.descriptor(name)).st_ctime_ns
            with self.open_stream(name) as stream:
                self._hashes[name] = hashlib.file_digest(stream, "sha256").hexdigest()
            # A recent change may hide another at the same time: 0 makes `changed_files` hash again
            self._touched[name] = before if before < time.time_ns() - CLOCK_GRANULARITY_NS else 0
        return self._hashes[name]

    def may_have_changed(self) -> bool:
        """Return whether `changed_files` would have anything to hash."""
        return any(os.fstat(self._opened[name]).st_ctime_ns != when for name, when in self._touched.items())

    def changed_files(self) -> list[str]:
        """Return the hashed files whose content has changed; those that were touched since are hashed again.

        A touched file need not have changed: making and removing hard links, as Triton's repository does, also touches it.
        """
        names = []
        for name, when in list(self._touched.items()):
            if os.fstat(self._opened[name]).st_ctime_ns != when:
                was = self._hashes.pop(name)
                if self.sha256(name) != was:
                    names.append(name)
                    self._hashes[name], self._touched[name] = was, 0  # so that further calls report it too
        return names

    @contextmanager
    def _reporting_errors(self, file: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            link = " (a link is not followed)" if os.path.islink(file) else ""
            raise FingerprintError(f"{file} cannot be read: {error.strerror or error}{link}") from None


def _close(folder: int, opened: dict[str, int]) -> None:
    for descriptor in (folder, *opened.values()):
        os.close(descriptor)
