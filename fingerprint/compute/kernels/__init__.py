"""Small kernels in C, for a device; tests compile the same source for a CPU.

Example:
    >>> out = cupy.empty(len(borders) - 1, cupy.uint64)
    >>> launch_kernel(SIPHASH, len(out), characters, borders, out)

A kernel is one file `NAME.cu` with one function NAME, whose first argument is the number of rows; `grid_stride.h` distributes the
rows over threads. It is compiled at its first use, by the library of its arrays (CuPy: NVRTC). Kernels that read the records of a
log source lie in the package of that source.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fingerprint.compute import arrays

GRID_STRIDE = Path(__file__).with_name("grid_stride.h")
SIPHASH = Path(__file__).with_name("siphash.cu")
BLOCK_THREADS = 128  # threads a block: few, so that a long record keeps few others waiting
MAX_BLOCKS = 1 << 16  # with more rows, each thread takes several in turn


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
    """Return the full source of a kernel, with `grid_stride.h`."""
    return GRID_STRIDE.read_text() + file.read_text()


@cache
def _function(module: Any, file: Path) -> Any:
    return module(code=kernel_source(file), options=("--std=c++14",)).get_function(file.stem)
