"""Files that only their owner may read: make and replace them, and warn about files that others can read.

Example:
    >>> make_private_folder(Path("checkpoints"))                    # mode 0700, like missing folders above it
    >>> with open("checkpoints/part", "xb", opener=private_opener) as file:   # mode 0600, whatever the umask
    ...     file.write(b"...")

A program calls `restrict_new_files` at its start. The functions that write banks, alert databases, scorer state and checkpoints
do not rely on it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger

PRIVATE_FOLDER_MODE, PRIVATE_FILE_MODE = 0o700, 0o600
STAGING_PREFIX = ".staged-"  # of a file that is being written; a killed process leaves it behind
# Orchestrators put secrets here with mode 0444 by default; the container guards them.
SECRETS_MOUNT = "/run/secrets/"

log = get_logger("fingerprint.core.private_files")
_warned: set[Path] = set()


def restrict_new_files() -> None:
    """Make all files and folders that this process creates from now on readable by their owner alone."""
    os.umask(0o777 & ~PRIVATE_FOLDER_MODE)


def make_private_folder(folder: Path) -> list[Path]:
    """Make a folder and the missing ones above it with PRIVATE_FOLDER_MODE; return the folders made, the innermost first."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(PRIVATE_FOLDER_MODE, exist_ok=True)
    return missing


@contextmanager
def private_folder(folder: Path) -> Iterator[None]:
    """Make a folder as `make_private_folder` does; after an error, remove the folders made that are empty."""
    made = make_private_folder(folder)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # a folder that is not empty stays, and so do those above it
            for each in made:
                each.rmdir()
        raise


def private_opener(path: str, flags: int) -> int:
    """Open a file for `open(..., opener=private_opener)`; a new one has PRIVATE_FILE_MODE."""
    return os.open(path, flags, PRIVATE_FILE_MODE)


def replace_file(
    file: Path,
    write: Callable[[Path], object],
    mode: int = PRIVATE_FILE_MODE,
    publish: Callable[[Path, Path], object] = os.replace,
    staged_in: Path | None = None,
) -> None:
    """Replace a file atomically: `write` writes it under a temporary name, and `publish` moves it. Survives a loss of power.

    No other process uses the temporary name, which is in `staged_in` or beside the file. With `publish=os.link`, an existing file
    is not replaced. Raise OSError if the folder cannot be written.
    """
    staged = (staged_in or file.parent) / f"{STAGING_PREFIX}{secrets.token_hex(8)}"
    try:
        with open(staged, "xb", opener=private_opener):
            pass
        write(staged)
        staged.chmod(mode)
        sync(staged)  # else the name may survive a loss of power without the content
        publish(staged, file)
    finally:
        staged.unlink(missing_ok=True)
    sync(file.parent)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's entries, survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def exclusive_lock(file: Path, busy: str) -> Iterator[None]:
    """Hold a lock file, which exists only during the block. The lock ends with the process, however the process ends.

    Raise FingerprintError with the sentence `busy` if another process holds it, OSError if the file cannot be made.
    """
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_at(lock.fileno(), file):
                raise BlockingIOError
        except BlockingIOError:
            raise FingerprintError(busy) from None
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def _is_at(handle: int, file: Path) -> bool:
    """Return whether an open file still has its name: the previous holder of the lock may have removed it."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), file.stat())
    return False


def restrict_files(folder: Path) -> None:
    """Set PRIVATE_FILE_MODE for the files of a folder that was made with `make_private_folder`."""
    for each in folder.iterdir():
        each.chmod(PRIVATE_FILE_MODE)


def is_exposed(path: Path) -> bool:
    """Return whether every user of this machine can read a file, given its own mode and those of all folders above it."""
    try:
        own, above = path.stat().st_mode, [each.stat().st_mode for each in path.absolute().parents]
    except OSError:
        return False
    return bool(own & stat.S_IROTH) and all(mode & stat.S_IXOTH for mode in above)


def warn_if_exposed(path: Path, remedy: Path | None = None) -> None:
    """Log a warning, once per process, about a file that every user can read.

    `remedy` is the path to restrict, if it is not the file itself.
    """
    if path in _warned or str(path.absolute()).startswith(SECRETS_MOUNT) or not is_exposed(path):
        return
    _warned.add(path)
    closed = remedy or path
    how = f"chmod {'-R ' if closed.is_dir() else ''}o= {closed}"
    log.warning("every user of this machine can read %s: `%s` ends that", path, how)
