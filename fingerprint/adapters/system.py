"""The time of day, and waiting for it.

Example:
    >>> SystemClock().now().tzinfo
    datetime.timezone.utc
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar


class SystemClock:
    """The machine's own."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))


T = TypeVar("T")
R = TypeVar("R")


class InProcessPool:
    """Twin of a cluster (`dask_workers`). Nobody else can take over: if this process dies, all of it ends."""

    parallelism = 1

    def map_unordered(self, work: Callable[[T], R], pieces: Sequence[T]) -> Iterator[tuple[int, R]]:
        for place, piece in enumerate(pieces):
            yield place, work(piece)
