"""The versions of a bank in its folder, the one that is served, and the history of decisions with their reasons.

Example:
    >>> serve_version(folder, "2026-02-01-5b3c0a1e", VersionDecision("train", why="the gate passed it"))
    >>> served_version(folder), previous_version(folder)
    ('2026-02-01-5b3c0a1e', '2026-01-25-77aa01f2')
    >>> roll_back(folder, VersionDecision("rollback", why="too many votes"))
    '2026-01-25-77aa01f2'

    bank/
      CURRENT                 the name of the served version; replaced atomically
      HISTORY.jsonl           a line for each decision; append-only
      versions/<version>/     the files of `bank_files`; never changed, apart from signatures

The line is written before CURRENT is replaced. A process that dies in between leaves a line about a decision that had no effect.
That does no harm: a line names the version that was served *before* it, and only lines of the served version are used for that.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from fingerprint.core import private_files
from fingerprint.core.errors import FingerprintError
from fingerprint.core.time_range import DAY_SECONDS

DecisionAction = Literal["train", "publish", "rollback", "refused"]
SERVING_ACTIONS = ("train", "publish", "rollback")
# Names of versions: never a path, and never beginning with a dot
VERSION_PATTERN = re.compile(r"\w[\w.-]{0,199}", re.ASCII)
MAX_LINE_LENGTH = 1_000  # bytes
LEFTOVER_SECONDS = DAY_SECONDS


@dataclass(frozen=True, slots=True)
class VersionDecision:
    """A decision about a version: by whom, when (ISO 8601) and why. The action `refused` means that the gate did not pass it."""

    action: DecisionAction
    at: str = ""
    by: str = ""
    why: str = ""
    forced: bool = False


def require_served_version(folder: Path) -> str:
    """Return the version that is served. Raises FingerprintError if there is none, or CURRENT does not name one."""
    try:
        with open(folder / "CURRENT", "rb", opener=_open_nonblocking) as stream:
            version = (stream.read(MAX_LINE_LENGTH) or b"").decode(errors="replace").strip()
    except OSError:
        raise FingerprintError(_no_version_message(folder)) from None
    if not VERSION_PATTERN.fullmatch(version):
        raise FingerprintError(f"{folder / 'CURRENT'} does not name a version of the bank")
    return version


def _open_nonblocking(file: str, flags: int) -> int:
    """Open a file without waiting for a writer, in case it is a pipe."""
    return os.open(file, flags | os.O_NONBLOCK)


def _no_version_message(folder: Path) -> str:
    if list_bank_versions(folder):
        return (
            f"no version of the bank {folder} is served: `fingerprint bank list` says which are kept, and why"
        )
    return f"no bank in {folder}: make one with `fingerprint train SOURCE --bank {folder}`"


def served_version(folder: Path) -> str | None:
    """Return the version that is served, None if there is none."""
    return require_served_version(folder) if (folder / "CURRENT").exists() else None


def list_bank_versions(folder: Path) -> list[str]:
    """Return all versions that are kept, the one written last first."""
    root = folder / "versions"
    written = {each.name: written_at(each) for each in root.iterdir()} if root.is_dir() else {}
    kept = [(at, name) for name, at in written.items() if at is not None]
    return [name for _, name in sorted(kept, reverse=True)]


def list_served_versions(folder: Path) -> list[str]:
    """Return the kept versions that were ever served, the one that was served last first."""
    there = set(list_bank_versions(folder))
    lines = (line for line in reversed(decision_history(folder)) if line.get("action") in SERVING_ACTIONS)
    return [version for version in dict.fromkeys(line["version"] for line in lines) if version in there]


def written_at(root: Path) -> float | None:
    """Return when a version was written, in seconds since 1970; None for a folder that holds no version, or none any more.

    Readers hold no lock, and a training may retire a version between two of their steps.
    """
    if root.name.startswith("."):
        return None
    try:
        manifest = (root / "manifest.json").stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return manifest.st_mtime if stat.S_ISREG(manifest.st_mode) else None


def version_folder(folder: Path, version: str) -> Path:
    """Return the folder of a version. Raises FingerprintError with the names of the kept versions if it is not one of them."""
    if version in (there := list_bank_versions(folder)):
        return folder / "versions" / version
    names = ", ".join(there) or "none"
    raise FingerprintError(f"bank {folder} has no version {version!r} (kept: {names})")


def serve_version(folder: Path, version: str, note: VersionDecision) -> None:
    """Serve a version from now on. Serving the served version again changes nothing.

    Raises FingerprintError if the version is not kept: a training may have retired it after it was checked.
    """
    with _locked(folder):
        version_folder(folder, version)
        was = served_version(folder)
        if was != version:
            _move(folder, version, was, note)


def roll_back(folder: Path, note: VersionDecision, expected: str | None = None) -> str:
    """Serve the version that was served before, and return it. A second call goes back to the one before that.

    Raises FingerprintError if there is none, it was retired, or it is not the `expected` one.
    """
    with _locked(folder):
        version, served = previous_version(folder), require_served_version(folder)
        if version is None:
            raise FingerprintError(f"the folder {folder} has served no version before {served}")
        if expected not in (None, version):
            raise FingerprintError(
                f"{served} was served while {expected} was checked: nothing was rolled back. "
                "Ask `fingerprint bank list`, and roll back again if it is still wanted"
            )
        version_folder(folder, version)
        _move(folder, version, _previous_to(folder, version), note)
    return version


def append_decision(folder: Path, version: str, note: VersionDecision) -> None:
    """Append a decision about a version to the history, without serving the version."""
    with _locked(folder):
        _append(folder, {"version": version, **asdict(note)})


def decision_history(folder: Path) -> list[dict[str, Any]]:
    """Return the decisions, oldest first; a line that a crash cut off is skipped."""
    try:
        text = (folder / "HISTORY.jsonl").read_text(errors="replace")
    except FileNotFoundError:
        return []
    return [line for line in map(_line, text.splitlines()) if line]


def previous_version(folder: Path) -> str | None:
    """Return the version that was served before the present one, None if there was none."""
    return _previous_to(folder, require_served_version(folder))


def _previous_to(folder: Path, version: str) -> str | None:
    lines = (line for line in reversed(decision_history(folder)) if line.get("action") in SERVING_ACTIONS)
    return next((line.get("before") for line in lines if line["version"] == version), None)


def remove_old_versions(folder: Path, keep: int) -> list[str]:
    """Remove all but the newest `keep` versions and the `keep` that were served last; return the removed versions.

    The served version and the one served before it are always kept. Files that killed writers left are removed.
    """
    with _locked(folder):
        safe = {served_version(folder), previous_version(folder) if served_version(folder) else None}
        safe.update(list_served_versions(folder)[:keep])
        there = list_bank_versions(folder)
        old = [version for version in there[keep:] if version not in safe]
        for leftover in _leftovers(folder / "versions", there):
            _remove(leftover)
        for version in old:
            retired = folder / "versions" / f".{version}.retired"
            (folder / "versions" / version).rename(retired)  # a half-removed version must not look like one
            shutil.rmtree(retired, ignore_errors=True)
    return old


def _leftovers(root: Path, versions: list[str]) -> Iterator[Path]:
    """Yield the hidden files that killed processes left beside the versions.

    - STAGING_PREFIX...: if they are a day older than the newest version, because no writer takes that long
    - .VERSION.retired: at any age, because versions are removed under the lock that is held here
    """
    newest = max((written_at(root / version) or 0.0 for version in versions), default=0.0)
    for each in sorted(root.glob(".*")):
        with suppress(FileNotFoundError):  # an active writer may have moved it
            is_old = newest - each.lstat().st_mtime > LEFTOVER_SECONDS
            if each.name.endswith(".retired") or (
                is_old and each.name.startswith(private_files.STAGING_PREFIX)
            ):
                yield each


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _move(folder: Path, version: str, was: str | None, note: VersionDecision) -> None:
    _append(folder, {"version": version, "before": was, **asdict(note)})
    private_files.replace_file(folder / "CURRENT", lambda staged: staged.write_text(version + "\n"))


def _append(folder: Path, line: dict[str, Any]) -> None:
    with (folder / "HISTORY.jsonl").open("a+b") as stream:
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, end - 1))
        torn = end > 0 and stream.read(1) != b"\n"
        stream.write(b"\n" * torn + json.dumps(line).encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def _line(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and isinstance(line.get("version"), str) else None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder, so that there is one decision at a time. It is released even if its holder is killed."""
    try:
        private_files.make_private_folder(folder)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise FingerprintError(f"cannot write the bank {folder}: {error.strerror or error}") from None
