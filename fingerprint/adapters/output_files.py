"""The file of an option `--out`, which appears when it is complete.

Example:
    >>> with staged_output(Path("alerts.jsonl")) as file:
    ...     file.write_text("{}")                           # `.alerts.jsonl.51bbfecd` beside it until the block ends
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def staged_output(out: Path) -> Iterator[Path]:
    """Yield the file to write: it becomes `out`, or what the link `out` names, when the block ends, and is removed if that fails.

    A device or a pipe is yielded itself: nothing may take its place. Raises OSError if it cannot be looked at or replaced.
    """
    if out.exists() and not out.is_file():
        yield out
        return
    complete = out.resolve()
    staged = complete.with_name(f".{complete.name}.{secrets.token_hex(4)}")
    try:
        yield staged
        staged.replace(complete)
    finally:
        staged.unlink(missing_ok=True)
