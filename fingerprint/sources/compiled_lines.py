"""Scans over the bytes of joined lines, compiled by numba.

Example:
    >>> opening = np.empty(2, np.int64)
    >>> count_brackets(np.frombuffer(b'{"a": [1]}{}', np.uint8), np.array([0, 10, 12]), opening)
    >>> opening
    array([2, 1])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.compiled import compile_kernel

_BLOCK = 255  # bytes counted in one byte, of which a vector instruction adds many at a time
_LOWER, _BRACE, _NONE = np.uint8(0x20), np.uint8(0x7B), np.uint8(0)  # [ with the bit of lower case is {


@compile_kernel
def count_brackets(text: NDArray[np.uint8], borders: NDArray[np.int64], opening: NDArray[np.int64]) -> None:
    """Fill `opening` with the number of opening brackets and braces in each of the joined lines (N,), also inside strings."""
    for line in range(len(opening)):
        opening[line] = 0
        for start in range(borders[line], borders[line + 1], _BLOCK):
            opening[line] += _count_in_block(text[start : min(start + _BLOCK, borders[line + 1])])


@compile_kernel
def _count_in_block(block: NDArray[np.uint8]) -> np.int64:
    count = _NONE
    for byte in block:
        count = np.uint8(count + np.uint8((byte | _LOWER) == _BRACE))
    return np.int64(count)
