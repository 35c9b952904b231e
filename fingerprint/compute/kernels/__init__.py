"""Small kernels in C for what no library does: they run on a device, and from the same source on a CPU, where they are tested.

Example:
    >>> out = cupy.empty(len(borders) - 1, cupy.uint64)
    >>> launch_kernel(SIPHASH, len(out), characters, borders, out)

A kernel is one file `NAME.cu` with one function NAME, whose first argument is the number of rows; `grid_stride.h` distributes the
rows. It is compiled when it is first used, by the library whose arrays it is given (CuPy: NVRTC). What reads the records of a log
source lies with that source.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fingerprint.compute import arrays

GRID_STRIDE = Path(__file__).with_name("grid_stride.h")
SIPHASH = Path(__file__).with_name("siphash.cu")
BLOCK_THREADS = 128  # a block: few enough that a long record keeps few others waiting
MAX_BLOCKS = 1 << 16  # at most; threads take further rows in turn


def launch_kernel(file: Path, count: int, *values: Any) -> None:
    """Run the kernel of a file over `count` rows.

    Arrays must lie on one device and be contiguous; numbers are passed as 64 bits.
    """
    if not count:
        return
    xp = next(arrays.namespace(value) for value in values if hasattr(value, "dtype"))
    blocks = min(-(-count // BLOCK_THREADS), MAX_BLOCKS)
    given = tuple(np.int64(value) if isinstance(value, int) else value for value in values)
    _function(xp.RawModule, file)((blocks,), (BLOCK_THREADS,), (np.int64(count), *given))


def kernel_source(file: Path) -> str:
    """Return the text of a kernel, as it is compiled."""
    return GRID_STRIDE.read_text() + file.read_text()


@cache
def _function(module: Any, file: Path) -> Any:
    return module(code=kernel_source(file), options=("--std=c++14",)).get_function(file.stem)
