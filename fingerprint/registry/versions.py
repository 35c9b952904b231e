"""The versions of a bank in its folder: which one is served, and the history of decisions with their reasons.

Example:
    >>> serve_version(folder, "2026-02-01-5b3c0a1e", VersionDecision("train", why="the gate passed it"))
    >>> served_version(folder), previous_version(folder)
    ('2026-02-01-5b3c0a1e', '2026-01-25-77aa01f2')
    >>> roll_back(folder, VersionDecision("rollback", why="too many votes"))
    '2026-01-25-77aa01f2'

    bank/
      CURRENT                 the version that is served; replaced in one step
      HISTORY.jsonl           a line for each decision, only ever added to
      versions/<version>/     what `bank` writes; never changed once it is there

The line is written before CURRENT is moved. A process that dies in between leaves a line about a decision that had no effect: a
line says which version was served *before*, and only the line of the version that is served is asked for that.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
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
# Of a version: never a path, nor what begins with a dot
VERSION_PATTERN = re.compile(r"\w[\w.-]{0,199}", re.ASCII)
MAX_LINE_LENGTH = 1_000  # bytes
LEFTOVER_SECONDS = DAY_SECONDS


@dataclass(frozen=True, slots=True)
class VersionDecision:
    """A decision about a version: by whom, when (ISO 8601) and why. `refused`: the gate kept it from being served."""

    action: DecisionAction
    at: str = ""
    by: str = ""
    why: str = ""
    forced: bool = False


def require_served_version(folder: Path) -> str:
    """Return the version that is served. Raises FingerprintError where there is none, or the pointer names none."""
    try:
        with open(folder / "CURRENT", "rb", opener=_open_nonblocking) as stream:
            version = (stream.read(MAX_LINE_LENGTH) or b"").decode(errors="replace").strip()
    except OSError:
        raise FingerprintError(_no_version_message(folder)) from None
    if not VERSION_PATTERN.fullmatch(version):
        raise FingerprintError(f"{folder / 'CURRENT'} does not name a version of the bank")
    return version


def _open_nonblocking(file: str, flags: int) -> int:
    """Open what may be a pipe without waiting for its writer."""
    return os.open(file, flags | os.O_NONBLOCK)


def _no_version_message(folder: Path) -> str:
    if list_bank_versions(folder):
        return (
            f"no version of the bank {folder} is served: `fingerprint bank list` says which are kept, and why"
        )
    return f"no bank in {folder}: make one with `fingerprint train SOURCE --bank {folder}`"


def served_version(folder: Path) -> str | None:
    """Return the version that is served, None where there is none."""
    return require_served_version(folder) if (folder / "CURRENT").exists() else None


def list_bank_versions(folder: Path) -> list[str]:
    """Return all versions that are there, the one written last first."""
    root = folder / "versions"
    found = [each for each in root.iterdir() if _is_version(each)] if root.is_dir() else []
    return [each.name for each in sorted(found, key=_write_order, reverse=True)]


def list_served_versions(folder: Path) -> list[str]:
    """Return the versions that are there and were served, the one that was served last first; not those that were refused."""
    there = set(list_bank_versions(folder))
    lines = (line for line in reversed(decision_history(folder)) if line.get("action") in SERVING_ACTIONS)
    return [version for version in dict.fromkeys(line["version"] for line in lines) if version in there]


def _is_version(folder: Path) -> bool:
    return not folder.name.startswith(".") and (folder / "manifest.json").is_file()


def _write_order(folder: Path) -> tuple[float, str]:
    return (folder / "manifest.json").stat().st_mtime, folder.name


def version_folder(folder: Path, version: str) -> Path:
    """Return the folder of a version. Raises FingerprintError that names those there are."""
    if version in (there := list_bank_versions(folder)):
        return folder / "versions" / version
    names = ", ".join(there) or "none"
    raise FingerprintError(f"bank {folder} has no version {version!r} (kept: {names})")


def serve_version(folder: Path, version: str, note: VersionDecision) -> None:
    """Serve a version from now on. Serving what is served changes nothing.

    FingerprintError where it is not kept: a training may have retired it since it was looked at.
    """
    with _locked(folder):
        version_folder(folder, version)
        was = served_version(folder)
        if was != version:
            _move(folder, version, was, note)


def roll_back(folder: Path, note: VersionDecision, expected: str | None = None) -> str:
    """Serve the version that was served before, and say which; again, and it is the one before that.

    FingerprintError where there is none, it was retired, or it is not the one that is `expected`.
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
    """Add a line about a version that is not served."""
    with _locked(folder):
        _append(folder, {"version": version, **asdict(note)})


def decision_history(folder: Path) -> list[dict[str, Any]]:
    """Return the lines, oldest first; one that a crash cut off is skipped."""
    try:
        text = (folder / "HISTORY.jsonl").read_text(errors="replace")
    except FileNotFoundError:
        return []
    return [line for line in map(_line, text.splitlines()) if line]


def previous_version(folder: Path) -> str | None:
    """Return the version that was served before the one that is."""
    return _previous_to(folder, require_served_version(folder))


def _previous_to(folder: Path, version: str) -> str | None:
    lines = (line for line in reversed(decision_history(folder)) if line.get("action") in SERVING_ACTIONS)
    return next((line.get("before") for line in lines if line["version"] == version), None)


def remove_old_versions(folder: Path, keep: int) -> list[str]:
    """Remove all but the newest `keep` versions and the `keep` that were served last; returns which.

    What is served and what was before stays in any case. What writers that were killed left beside them goes.
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
            (folder / "versions" / version).rename(retired)  # half a version must not look like one
            shutil.rmtree(retired, ignore_errors=True)
    return old


def _leftovers(root: Path, versions: list[str]) -> Iterator[Path]:
    """Yield what is hidden beside the versions, a day older than the newest of them: no writer takes that long.

    Their names begin with STAGING_PREFIX. Whatever its age, `.VERSION.retired`, too: it is removed under the lock held here.
    """
    newest = max((_write_order(root / version)[0] for version in versions), default=0.0)
    for each in sorted(root.glob(".*")):
        with suppress(FileNotFoundError):  # a writer that is at work has moved it
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
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("version"), str) else None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder: one decision at a time. The lock goes with its holder, however that ends."""
    try:
        private_files.make_private_folder(folder)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise FingerprintError(f"cannot write the bank {folder}: {error.strerror or error}") from None
