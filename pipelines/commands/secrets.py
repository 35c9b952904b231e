"""Secrets of a deployment, each in a file: created once, rotated on request, never shown.

With a folder for each secret, as in docker-compose.yml, a container can have one secret and not the others.

Example:
    >>> create_secrets(Path("/run/secrets"), ["database/password"])
    [{'name': 'database/password', 'did': 'made'}]
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from fingerprint.core import private_files
from fingerprint.core.errors import FingerprintError

SECRET_BYTES = 32  # random bytes of a secret
GROUP_READABLE_MODE = 0o440  # readable by owner and group
OWNER_ONLY_MODE = 0o400
# PostgreSQL and Grafana run under user ids of their own, and read their secrets as members of the group
GROUP_READABLE_SECRETS = ("database-password", "grafana-admin")
FOLDER_MODE = 0o750
DEFAULT_NAMES = ("database-password", "triton-control")
VALUE_PREFIXES = {"triton-control": "fingerprint-control="}  # Triton needs a header's name before the value
_NAME = re.compile(r"([a-z0-9][a-z0-9-]{0,62}/)?[a-z0-9][a-z0-9-]{0,62}")  # a file; or one in a folder


def create_secrets(folder: Path, names: Sequence[str]) -> list[dict[str, str]]:
    """Create the secrets that are missing; return for each whether it was `made` or `kept`. No value is overwritten."""
    _check_names(names)
    _prepare_folder(folder, names)
    return [{"name": name, "did": "made" if _create_if_missing(folder / name) else "kept"} for name in names]


def rotate_secrets(folder: Path, names: Sequence[str]) -> list[dict[str, str]]:
    """Give each secret a new value; the old one is kept in NAME.old, readable by the owner alone."""
    _check_names(names)
    _prepare_folder(folder, names)
    for name in names:
        _rotate(folder / name)
    return [{"name": name, "did": "rotated"} for name in names]


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            raise FingerprintError(
                f"{name!r} is no name of a secret: use a-z, 0-9 and '-', as in {DEFAULT_NAMES[0]}, optionally in a folder"
            )


def _prepare_folder(folder: Path, names: Sequence[str]) -> None:
    for each in dict.fromkeys([folder, *((folder / name).parent for name in names)]):
        if not each.is_dir():
            each.mkdir(parents=True)
            each.chmod(FOLDER_MODE)  # whatever the umask


def _generate_value(name: str) -> str:
    return VALUE_PREFIXES.get(name, "") + secrets.token_urlsafe(SECRET_BYTES)


def _mode_of(file: Path) -> int:
    return GROUP_READABLE_MODE if file.name in GROUP_READABLE_SECRETS else OWNER_ONLY_MODE


def _create_if_missing(file: Path) -> bool:
    """Create a file if it is missing; return whether this process created it. Of several processes only one does."""
    if file.exists():
        return _already_exists(file)
    try:
        _write(file, _generate_value(file.name), _mode_of(file), os.link)  # a link never replaces
    except FileExistsError:
        return _already_exists(file)
    return True


def _already_exists(file: Path) -> bool:
    if not file.is_file() or not file.stat().st_size:
        raise FingerprintError(f"{file} exists and holds no secret: remove it, and it is created again")
    return False


def _rotate(file: Path) -> None:
    if file.is_file() and (old := file.read_text()):
        _write(file.with_name(f"{file.name}.old"), old, OWNER_ONLY_MODE)
    _write(file, _generate_value(file.name), _mode_of(file))


def _write(file: Path, text: str, mode: int, publish: Callable[[Path, Path], object] = os.replace) -> None:
    private_files.replace_file(file, lambda staged: staged.write_text(text), mode, publish)


def print_secrets(rows: list[dict[str, str]]) -> None:
    """Print which secrets were created and which existed."""
    for row in rows:
        print(f"{row['did']:<10} {row['name']}")
