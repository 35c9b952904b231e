"""The file of an option `--out`, which appears only when it is complete.

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
    """Yield a temporary file that becomes `out` (or the target of the link `out`) when the block ends; it is removed on failure.

    A device or a pipe is yielded itself, because nothing may replace it. Raise OSError if `out` cannot be examined or replaced.
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
