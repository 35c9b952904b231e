"""Work directory for long work: named by the work's parameters, used by one run at a time, and found again after a crash.

Example:
    >>> with work_directory(Path("work"), "score", {"bank": "2026-01-31", "sources": [...]}) as folder:
    ...     (folder / "part").exists()          # files from before a crash are still there
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
ABANDONED_SECONDS = 24 * 3600  # a folder without a change for so long counts as abandoned


def work_root(options: Workers, bank: Path) -> Path:
    """Return the folder for work on a bank: that of the settings, else one in the bank's folder, which all workers see."""
    return Path(options.work_directory) if options.work_directory else bank / "work"


@contextmanager
def work_directory(root: Path, name: str, parameters: Mapping[str, Any]) -> Iterator[Path]:
    """Open the folder in `root` for work with these parameters (plain JSON); make it if it does not exist.

    If the block succeeds or the folder is empty, the folder is removed, and `root` too if it is empty. Otherwise it stays. Raise
    FingerprintError if the same work is under way, or if the folder cannot be written.
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
    """Remove folders in `root` of this name that no run uses and that have not changed for `idle_seconds`.

    A killed run leaves its folder for the next run with the same parameters, which may never come.
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
