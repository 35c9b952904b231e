"""Many lines as one text, and where each of them begins: what readers of whole batches work on.

Example:
    >>> join_lines([b"ab", b"c"])
    (b'abc', array([0, 2, 3]))
    >>> lines_array([b"ab", b"c"]).to_pylist()
    [b'ab', b'c']
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def join_lines(lines: Sequence[bytes]) -> tuple[bytes, NDArray[np.int64]]:
    """Return lines as one text, and the offsets at which each begins and the last ends, (N + 1,)."""
    borders = np.zeros(len(lines) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)), out=borders[1:])
    return b"".join(lines), borders


def lines_array(lines: Sequence[bytes]) -> pa.LargeBinaryArray:
    """Return lines (N,) as Arrow's, copied once: its own builder grows and copies again."""
    joined, borders = join_lines(lines)
    buffers = [None, pa.py_buffer(borders), pa.py_buffer(joined)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(lines), buffers)
