"""Joined lines: many lines as one text with the offset of each, the input of readers of whole batches.

Example:
    >>> join_lines([b"ab", b"c"])
    (b'abc', array([0, 2, 3]))
    >>> lines_array([b"ab", b"c"]).to_pylist()
    [b'ab', b'c']
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

# The text of all lines, and the offsets (N + 1,) at which each line begins and the last one ends
JoinedLines = tuple[bytes, NDArray[np.int64]]


def join_lines(lines: Sequence[bytes]) -> JoinedLines:
    """Return lines as one text, and the offsets (N + 1,) at which each line begins and the last one ends."""
    borders = np.zeros(len(lines) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)), out=borders[1:])
    return b"".join(lines), borders


def lines_array(lines: Sequence[bytes]) -> pa.LargeBinaryArray:
    """Return lines (N,) as an Arrow array, copied once; Arrow's own builder copies several times while it grows."""
    joined, borders = join_lines(lines)
    buffers = [None, pa.py_buffer(borders), pa.py_buffer(joined)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(lines), buffers)


def lines_with_prefix(prefix: bytes, text: bytes, borders: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask (N,) of the joined lines that begin with a prefix."""
    out = np.diff(borders) >= len(prefix)
    if out.any():
        windows = sliding_window_view(np.frombuffer(text, np.uint8), len(prefix))
        out[out] = (windows[borders[:-1][out]] == np.frombuffer(prefix, np.uint8)).all(axis=1)
    return out


def starting_with(prefix: bytes, lines: Sequence[bytes]) -> NDArray[np.bool_]:
    """Return a mask (N,) of the lines that begin with a prefix."""
    return np.fromiter(map(bytes.startswith, lines, repeat(prefix)), bool, len(lines))
