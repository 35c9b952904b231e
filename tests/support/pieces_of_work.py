"""Pieces of work for a pool of processes, each of which imports this module, and nothing that takes long with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from fingerprint.core.errors import FingerprintError


def squared(number: int) -> int:
    return number * number


def refused(why: str, piece: int) -> int:
    if piece == 2:
        raise FingerprintError(why)
    return piece


def broken(piece: int) -> float:
    return 1 / piece


def interrupted(folder: Path, piece: int) -> int:
    """The third piece waits to be killed, the first time."""
    if piece == 2 and not (folder / "pid").exists():
        (folder / "writing").write_text(str(os.getpid()))
        (folder / "writing").rename(folder / "pid")
        signal.pause()
    return squared(piece)


def deadly(piece: int) -> int:
    if piece == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return squared(piece)


def endless(folder: Path, piece: int) -> int:
    (folder / f"begun-{piece}").touch()
    return int(signal.pause() is None)
