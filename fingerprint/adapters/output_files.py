"""Where the file of an option `--out` is written before it is complete.

Example:
    >>> place_for_output(Path("alerts.jsonl"))
    (PosixPath('/data/.alerts.jsonl.4711'), PosixPath('/data/alerts.jsonl'))
    >>> place_for_output(Path("/dev/stdout"))
    (PosixPath('/dev/stdout'), PosixPath('/dev/stdout'))
"""

from __future__ import annotations

import os
from pathlib import Path


def place_for_output(out: Path) -> tuple[Path, Path]:
    """Return the file to write, and the file that it becomes when it is complete: of a link, what the link names.

    Both are `out` where that is a device or a pipe: nothing may take its place. Raises OSError if it cannot be looked at.
    """
    if out.exists() and not out.is_file():
        return out, out
    complete = out.resolve()
    return complete.with_name(f".{complete.name}.{os.getpid()}"), complete
