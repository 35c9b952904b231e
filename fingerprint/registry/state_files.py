"""Scorer state in a folder, so that one run continues the next: arrays as safetensors, moved into place as the last step.

Example:
    >>> save_state(state, Path("state"))
    >>> state = restore_state(Path("state"), settings)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from fingerprint.core import private_files
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.sources.arrival import check_watermark
from fingerprint.state.scorer_state import ScorerState

STATE_FILE = "scorer_state.safetensors"


def save_state(state: ScorerState, folder: Path) -> None:
    """Write the state; a crash while writing leaves the one before. Raises FingerprintError if the folder cannot be written."""
    staged = folder / f".{STATE_FILE}.{os.getpid()}"
    try:
        private_files.make_private_folder(folder)
        save_file({name: np.ascontiguousarray(array) for name, array in state.as_arrays().items()}, staged)
        staged.chmod(private_files.PRIVATE_FILE_MODE)
        staged.replace(folder / STATE_FILE)
    except OSError as error:
        raise FingerprintError(f"cannot write the scorer state {folder}: {error.strerror or error}") from None


def restore_state(folder: Path, settings: Settings) -> ScorerState | None:
    """Return the state of a folder, None if there is none yet.

    Raises FingerprintError if it cannot be read, or its clock lies ahead of this machine's.
    """
    if not (folder / STATE_FILE).exists():
        return None
    try:
        state = ScorerState.from_arrays(settings, read_state_arrays(folder))
    except (OSError, SafetensorError, KeyError, ValueError, IndexError) as error:
        raise FingerprintError(f"the scorer state {folder / STATE_FILE} cannot be read: {error}") from None
    remedy = "Name another folder in --state, and score again what followed the bank's history"
    check_watermark(f"the scorer state {folder / STATE_FILE}", state.watermark, remedy)
    return state


def read_state_arrays(folder: Path) -> dict[str, NDArray[Any]]:
    """Return the state of a folder as `ScorerState.as_arrays` gave it."""
    return load_file(folder / STATE_FILE)
