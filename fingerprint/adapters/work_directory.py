"""A folder for work that takes long: named by its parameters, used by one run at a time, and found again after a crash.

Example:
    >>> with work_directory(Path("work"), "score", {"bank": "2026-01-31", "sources": [...]}) as folder:
    ...     (folder / "part").exists()          # what was made before a crash is still there
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from fingerprint.core import private_files
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Workers

LOCK_NAME = "lock"
ABANDONED_SECONDS = 24 * 3600  # since a folder changed, after which no run is expected to go on with it


def work_root(options: Workers, bank: Path) -> Path:
    """Return the folder for work on a bank: of the settings, or beside the bank, where all workers see it."""
    return Path(options.work_directory) if options.work_directory else bank / "work"


@contextmanager
def work_directory(root: Path, name: str, parameters: Mapping[str, Any]) -> Iterator[Path]:
    """Open the folder in `root` for work with these parameters (plain JSON), made if it is not there.

    It is removed if the block ends well or nothing was done, and `root` with it if that is empty; it stays otherwise. Raise
    FingerprintError if the same work is under way, or the folder cannot be written.
    """
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:16]
    folder = root.absolute() / f"{name}-{digest}"
    busy = f"another run does the same work in {folder}: let it end"
    with ExitStack() as held:
        try:
            private_files.make_private_folder(folder)
            held.enter_context(private_files.exclusive_lock(folder / LOCK_NAME, busy))
        except OSError as error:
            raise FingerprintError(f"cannot work in {folder}: {error.strerror or error}") from None
        try:
            yield folder
        except BaseException:
            if [each.name for each in folder.iterdir()] == [LOCK_NAME]:
                _remove_folder(folder)
            raise
        _remove_folder(folder)


def remove_abandoned(root: Path, name: str, idle_seconds: float = ABANDONED_SECONDS) -> None:
    """Remove the folders in `root` of other work of this name that no run uses and that have not changed for so long.

    A run that was killed leaves its folder to the next one with the same parameters, which may never come.
    """
    for folder in root.absolute().glob(f"{name}-*"):
        with suppress(OSError, FingerprintError):  # one that is in use, or was just removed
            if time.time() - folder.stat().st_mtime >= idle_seconds:
                with private_files.exclusive_lock(folder / LOCK_NAME, "in use"):
                    _remove_folder(folder)


def _remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()
