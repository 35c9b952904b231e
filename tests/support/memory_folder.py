"""Temporary files of tests in memory, where there is room.

A test of the store makes some hundred files, a database of PostgreSQL some three hundred. A disk may take most of the time of a
run for that, and none of it is kept. TMPDIR, where it is set, says otherwise.

Example:
    >>> use_memory()
    >>> tempfile.gettempdir()
    '/dev/shm'
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - Linux's file system in memory
ENOUGH = 6 << 30  # bytes; a run side by side was seen to need less than half


def use_memory() -> None:
    """Have this process, and those that it starts, put temporary files there."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    if shutil.disk_usage(MEMORY).free >= ENOUGH:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # asked for again
