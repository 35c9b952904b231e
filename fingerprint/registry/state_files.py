"""Scorer state in a folder, so that one run continues the next: arrays as safetensors, moved into place as the last step.

The metadata of the file hold its format and the settings that define what was counted (`state.state_settings`).

Example:
    >>> save_state(state, Path("state"))
    >>> state = restore_state(Path("state"), settings)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from fingerprint.core import private_files
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.sources.arrival import check_watermark
from fingerprint.state.scorer_state import STATE_FORMAT, ScorerState
from fingerprint.state.state_settings import changed_settings, state_settings

STATE_FILE, LOCK_FILE = "scorer_state.safetensors", ".lock"
BEGIN_AGAIN = "name another folder in --state, and score again what followed the bank's history"


@contextmanager
def locked_state(folder: Path | None) -> Iterator[None]:
    """Lock a folder for one run: if two runs continued the same state, the later to save would lose the other's events.

    Raises FingerprintError if another run holds the lock, or the folder cannot be written. Without a folder nothing is locked.
    """
    with ExitStack() as held:
        if folder:
            try:
                held.enter_context(private_files.private_folder(folder))
                busy = f"another run continues the scorer state {folder}: let it end"
                held.enter_context(private_files.exclusive_lock(folder / LOCK_FILE, busy))
            except OSError as error:
                raise FingerprintError(
                    f"cannot write the scorer state {folder}: {error.strerror or error}"
                ) from None
        yield


def save_state(state: ScorerState, folder: Path) -> None:
    """Write the state. A crash while writing leaves the old file. Raises FingerprintError if the folder cannot be written."""
    arrays = {name: np.ascontiguousarray(array) for name, array in state.as_arrays().items()}
    counted = {"format": str(STATE_FORMAT), "settings": json.dumps(state_settings(state.options))}
    try:
        private_files.make_private_folder(folder)
        private_files.replace_file(folder / STATE_FILE, partial(save_file, arrays, metadata=counted))
    except (OSError, SafetensorError) as error:  # safetensors raises its own error if the disk is full
        reason = getattr(error, "strerror", None) or error
        raise FingerprintError(f"cannot write the scorer state {folder}: {reason}") from None


def restore_state(folder: Path, settings: Settings) -> ScorerState | None:
    """Return the state of a folder, None if there is none yet.

    Raises FingerprintError if the file cannot be read, has another format, was counted with other settings, or has a watermark
    in the future.
    """
    file = folder / STATE_FILE
    if not file.exists():
        return None
    try:
        _check_compatible(file, settings)
        state = ScorerState.from_arrays(settings, read_state_arrays(folder))
    except (OSError, SafetensorError, KeyError, ValueError, IndexError) as error:
        raise FingerprintError(f"the scorer state {file} cannot be read: {error}") from None
    check_watermark(f"the scorer state {file}", state.watermark, BEGIN_AGAIN.capitalize())
    return state


def _check_compatible(file: Path, settings: Settings) -> None:
    """Raise FingerprintError if a state has another format than this program's, or was counted with other settings."""
    with safe_open(file, "numpy") as opened:
        kept = opened.metadata() or {}
    if kept.get("format") != str(STATE_FORMAT):
        raise FingerprintError(
            f"the scorer state {file} has format {kept.get('format', 'none')}, this program reads {STATE_FORMAT}: {BEGIN_AGAIN}"
        )
    for changed in changed_settings(json.loads(kept["settings"]), state_settings(settings))[:1]:
        raise FingerprintError(
            f"setting {changed.name} is {changed.now!r}, and the scorer state {file} was counted with {changed.was!r}: "
            f"set it back, or {BEGIN_AGAIN}"
        )


def read_state_arrays(folder: Path) -> dict[str, NDArray[Any]]:
    """Return the saved arrays of a folder (`ScorerState.as_arrays`)."""
    return load_file(folder / STATE_FILE)
