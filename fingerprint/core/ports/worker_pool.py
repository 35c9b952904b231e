"""A pool of workers as a port: independent tasks of training and backfills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class WorkerPool(Protocol):
    """Independent tasks, done in this process or on a cluster.

    Example:
        >>> for index, figures in workers.map_unordered(partial(fit_partition, folder), range(16)):
        ...     progress(index, figures)

    `work` is a function that a worker can import, or a `functools.partial` of one. Arguments and results are small (paths,
    numbers, small tables); data travels as files in a folder that all workers see.
    """

    @property
    def parallelism(self) -> int:
        """Return how many tasks run at a time."""
        ...

    def map_unordered(self, work: Callable[[T], R], pieces: Sequence[T]) -> Iterator[tuple[int, R]]:
        """Yield (index of the piece, result) as the pieces finish, in any order.

        If a worker dies, another repeats its piece, so `work` must be repeatable: it writes to a file of its own and renames
        it. An error of `work` ends the iteration and is raised unchanged. Raise FingerprintError for a piece that killed every
        worker that ran it, and if the cluster is unavailable.
        """
        ...
