"""Habits that are learned over all partitions: openers of roles, actions that only services call, machines that never move.

Example:
    >>> learn_whole(OPENERS, dataset, settings.spectral.intervals_per_day)["role"]          # sorted hashes, (K,)
    array([ 1893218401178022931, 11025341009184340110], dtype=uint64)

Principals of any partition may open a role, and how rare a habit is depends on all of them. So the rows of each kind, which are
few, are read together.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import mapped_arrays
from fingerprint.compute.arrays import Arrays
from fingerprint.estimators.call_paths import PathRows, learn_call_paths
from fingerprint.estimators.moves import NetworkRows, learn_moves
from fingerprint.estimators.openers import OpeningRows, learn_openers
from fingerprint.training import fingerprint_index
from fingerprint.training.dataset import PartitionedDataset, make_once, write_arrays
from fingerprint.training.fingerprint_index import HoldoutSplit, MarkedRows


class LearnedRows(MarkedRows, Protocol):
    """R rows of a history, with a mask of those from which habits are `learned`."""

    @property
    def learned(self) -> NDArray[np.bool_]:
        """A mask (R,) of the rows from which habits are learned."""
        ...

    def take(self, which: NDArray[Any]) -> Self:
        """Return the rows of a mask or an index."""
        ...


class Learner(NamedTuple):
    """A habit: the part of the bank that it becomes, the stem of its rows' files, their class, and the function that learns."""

    part: str
    stem: str
    rows: Callable[..., LearnedRows]  # of columns by name
    learn: Callable[[Any, int], Arrays]  # of rows, and the number of intervals in a day


OPENERS = Learner("opener", "openings", OpeningRows, learn_openers)
CALL_PATHS = Learner("path", "paths", PathRows, learn_call_paths)
MOVES = Learner("move", "networks", NetworkRows, learn_moves)


def learn_whole(
    learner: Learner, dataset: PartitionedDataset, intervals_per_day: int, split: HoldoutSplit | None = None
) -> Arrays:
    """Return the arrays of a habit, learned from the rows of all partitions; with a `split`, without the held-out rows."""
    rows = learner.rows(**dataset.columns_of("rows", learner.stem))
    some = rows.learned if split is None else rows.learned & ~split.is_held_out(rows)
    return learner.learn(rows.take(some), intervals_per_day)


def learn_before(learner: Learner, dataset: PartitionedDataset, intervals_per_day: int) -> Arrays:
    """Return the arrays of a habit, learned from the rows before the held-out days; computed once for all partitions."""

    def write(folder: Path) -> None:
        split = fingerprint_index.load_split(dataset)
        write_arrays(learn_whole(learner, dataset, intervals_per_day, split), folder, "before")

    return mapped_arrays.open_arrays(make_once(dataset.folder / learner.stem, write), "before")
