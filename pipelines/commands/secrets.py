"""Secrets that a deployment needs, each a file: made once, changed when that is asked for, never shown.

Example:
    >>> make(Path("/run/secrets"), ["desk/desk-password"])
    [{'name': 'desk/desk-password', 'did': 'made'}]

A folder for each, as in docker-compose.yml, is what lets a container have one secret and not the others.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from fingerprint.core.alert import FingerprintError

BYTES = 32  # of randomness
READABLE = 0o440  # by the group too
MINE = 0o400
OTHERS = (
    "desk-password",
    "grafana-admin",
)  # PostgreSQL and Grafana run under ids of their own, and are given the group
FOLDER = 0o750
NAMES = ("desk-password", "triton-control")
PREFIX = {"triton-control": "fingerprint-control="}  # the header that Triton wants, and its value
_NAME = re.compile(r"([a-z0-9][a-z0-9-]{0,62}/)?[a-z0-9][a-z0-9-]{0,62}")  # a file; or one in a folder


def make(folder: Path, names: Sequence[str]) -> list[dict[str, str]]:
    """Write those that are missing, and say of each whether it was `made` or `kept`; no value is ever overwritten."""
    _check(names)
    _open(folder, names)
    return [{"name": name, "did": "made" if _made(folder / name) else "kept"} for name in names]


def make_anew(folder: Path, names: Sequence[str]) -> list[dict[str, str]]:
    """Give each a new value; what it had lies beside it, in NAME.old, for its owner alone."""
    _check(names)
    _open(folder, names)
    for name in names:
        _replace(folder / name)
    return [{"name": name, "did": "made anew"} for name in names]


def _check(names: Sequence[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            raise FingerprintError(
                f"{name!r} is no name for a secret: small letters, digits and '-', as in {NAMES[0]}, perhaps in a folder"
            )


def _open(folder: Path, names: Sequence[str]) -> None:
    for each in dict.fromkeys([folder, *((folder / name).parent for name in names)]):
        if not each.is_dir():
            each.mkdir(parents=True)
            each.chmod(FOLDER)  # whatever the umask


def _value(name: str) -> str:
    return PREFIX.get(name, "") + secrets.token_urlsafe(BYTES)


def _mode(file: Path) -> int:
    return READABLE if file.name in OTHERS else MINE


def _made(file: Path) -> bool:
    """Whether it was missing; of several that come at once, one makes it."""
    if file.exists():
        return _kept(file)
    try:
        _put(file, _value(file.name), _mode(file), os.link)  # a link never replaces
    except FileExistsError:
        return _kept(file)
    return True


def _kept(file: Path) -> bool:
    if not file.is_file() or not file.stat().st_size:
        raise FingerprintError(f"{file} is there and holds no secret: remove it, and it is made anew")
    return False


def _replace(file: Path) -> None:
    if file.is_file() and (old := file.read_text()):
        _put(file.with_name(f"{file.name}.old"), old, MINE, os.replace)
    _put(file, _value(file.name), _mode(file), os.replace)


def _put(file: Path, text: str, mode: int, place: Callable[[Path, Path], None]) -> None:
    """Nobody ever sees half a file, nor one that a crash could take back."""
    staged = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MINE), "w") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        place(staged, file)
    finally:
        with suppress(FileNotFoundError):
            staged.unlink()
    _sync(file.parent)


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def print_made(rows: list[dict[str, str]]) -> None:
    for row in rows:
        print(f"{row['did']:<10} {row['name']}")
