"""What was fetched beside its place is moved there when it is complete; who fetches the same at the same time may be first."""

from __future__ import annotations

import shutil
from pathlib import Path


def into_place(staged: Path, folder: Path) -> None:
    """Rename `staged` to `folder`; where that is there already it stays, and `staged` goes."""
    try:
        staged.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(staged, ignore_errors=True)
