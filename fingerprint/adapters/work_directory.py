"""A folder for work that takes long: named by what is done, one run at a time, found again after a crash, gone when all is done.

Example:
    >>> with entered(Path("work"), "score", about={"bank": "2026-01-31", "sources": [...]}) as folder:
    ...     once(folder / "part", make)          # what was made before a crash is still there
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fingerprint.core import private_files
from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Workers

LOCK_NAME = "lock"


def work_root(options: Workers, bank: Path) -> Path:
    """Where work for a bank is done: where the settings say, or beside the bank, which all who work on it see too."""
    return Path(options.work_directory) if options.work_directory else bank / "work"


@contextmanager
def work_directory(root: Path, name: str, parameters: Mapping[str, Any]) -> Iterator[Path]:
    """The folder in `place` for work of which `about` says all that shapes it (plain JSON), made if it is not there.

    It is removed if the block ends well or nothing was done, and `place` with it if nothing else is there; it stays otherwise.
    FingerprintError if the same work is under way, or the folder cannot be written.
    """
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:16]
    folder = root.absolute() / f"{name}-{digest}"
    try:
        private_files.make_private_folder(folder)
        lock = (folder / LOCK_NAME).open("w")
    except OSError as error:
        raise FingerprintError(f"cannot work in {folder}: {error.strerror or error}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # let go with the process, however it ends
        except OSError:
            raise FingerprintError(f"another run does the same work in {folder}: let it end") from None
        try:
            yield folder
        except BaseException:
            if [each.name for each in folder.iterdir()] == [LOCK_NAME]:
                _remove_folder(folder)
            raise
        _remove_folder(folder)


def _remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()
