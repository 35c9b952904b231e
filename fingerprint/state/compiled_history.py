"""The history that is visible to principals, compiled for the host.

Example:
    >>> history = VisibleHistory.empty(len(first))
    >>> for keys, columns in activity.parts:
    ...     add_visible_history(keys, tuple(columns[name] for name in COUNTS), first, last, history)

The same sums as `ScorerState._array_history` makes, which judges them in the tests, without the two dozen calls that those take
however few events there are.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.compiled import compile_exact_kernel, find_place

Longs = NDArray[np.int64]
Counts = NDArray[np.int32]

COUNTS = (
    "events",
    "sources",
    "actions",
)  # columns of the activity table
_INTERVAL_BITS, _INTERVAL = 32, 0xFFFFFFFF  # a key of the activity is slot << 32 | interval


class VisibleHistory(NamedTuple):
    """What D principals did: sums of COUNTS on the day so far (3, D), and the interval of the last activity (D,), -1 for none."""

    sums: Longs
    last: Longs

    @classmethod
    def empty(cls, rows: int) -> Self:
        """Return a history without activity."""
        return cls(np.zeros((len(COUNTS), rows), np.int64), np.full(rows, -1))


@compile_exact_kernel
def add_visible_history(
    keys: Longs, counts: tuple[Counts, ...], first: Longs, last: Longs, history: VisibleHistory
) -> None:
    """Add what a part of the activity has from one key to another, `first` and `last` (D,); `counts` are its COUNTS."""
    for row in range(len(first)):
        place = find_place(keys, last[row] + 1) - 1
        if place >= 0 and keys[place] >> _INTERVAL_BITS == last[row] >> _INTERVAL_BITS:
            history.last[row] = max(history.last[row], keys[place] & _INTERVAL)
        while place >= 0 and keys[place] >= first[row]:
            for number in range(len(counts)):
                history.sums[number, row] += counts[number][place]
            place -= 1
