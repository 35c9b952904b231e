"""This process as the one worker: pieces are done here, one after another.

Example:
    >>> list(InProcess().each(abs, [-1, 2]))
    [(0, 1), (1, 2)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


class InProcessPool:
    """Twin of a cluster (`dask_workers`). Nobody else can take over: if this process dies, all of it ends."""

    parallelism = 1

    def map_unordered(self, work: Callable[[T], R], pieces: Sequence[T]) -> Iterator[tuple[int, R]]:
        for place, piece in enumerate(pieces):
            yield place, work(piece)
