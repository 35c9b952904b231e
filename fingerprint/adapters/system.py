"""Adapters without a server: the machine's clock, and this process as a worker.

Example:
    >>> SystemClock().now().tzinfo
    datetime.timezone.utc
    >>> list(InProcessPool().map_unordered(abs, [-1, 2]))
    [(0, 1), (1, 2)]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar


class SystemClock:
    """The machine's clock. Implement `ports.clock.Clock`."""

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait for some seconds; not at all for a negative number."""
        time.sleep(max(0.0, seconds))


T = TypeVar("T")
R = TypeVar("R")


class InProcessPool:
    """This process as the one worker. Implement `ports.worker_pool.WorkerPool`.

    If this process dies, all of the work ends; in a cluster (`worker_pool`) another worker takes over.
    """

    parallelism = 1

    def map_unordered(self, work: Callable[[T], R], pieces: Sequence[T]) -> Iterator[tuple[int, R]]:
        """Yield index and result of each piece, one after another."""
        for place, piece in enumerate(pieces):
            yield place, work(piece)
