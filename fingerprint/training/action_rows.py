"""Action rows: the distinct actions of principals by second, from which training counts sequences.

Example:
    >>> rows = ActionRows.load(history.partition_folder(3) / "rows")       # mapped: nothing has been read yet
    >>> early = rows.take(~split.is_held_out(rows)).seen

Rows are sorted by second and mark, so neither the cut into chunks nor the number of partitions changes them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import run_starts
from fingerprint.estimators.sequence import SeenActions
from fingerprint.features.encoding import ACTION_COLUMN
from fingerprint.state.event_batch import EventBatch
from fingerprint.training.dataset import write_arrays


@dataclass(frozen=True, slots=True)
class ActionRows:
    """R distinct (principal, second, action), sorted by second and mark, with the number of `events` of each.

    `mark` (R,) is a hash of the row, `interval` (R,) the number of its interval, `learned` (R,) whether habits are learned from
    it (`exclusions`).
    """

    mark: Hashes
    principal: Hashes
    second: NDArray[np.int64]
    action: Hashes
    interval: NDArray[np.int32]
    events: NDArray[np.float64]
    learned: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.mark)

    @classmethod
    def from_batch(
        cls, batch: EventBatch, seconds: NDArray[np.int64], learned: NDArray[np.bool_]
    ) -> ActionRows:
        """Return the distinct rows of a batch on the host; `seconds` (N,) are the times of its events."""
        action = batch.codes[:, ACTION_COLUMN]
        mark = hashing.hash_pair(hashing.hash_pair(batch.principal, seconds.astype(np.uint64)), action)
        mark = np.where(learned, mark, ~mark)
        one = np.ones(len(batch))
        return cls(mark, batch.principal, seconds, action, batch.interval, one, learned).deduplicated()

    @classmethod
    def concatenate(cls, parts: list[ActionRows]) -> ActionRows:
        """Return the distinct rows of several sets of rows."""
        names = [each.name for each in fields(cls)]
        return cls(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in names)
        ).deduplicated()

    @classmethod
    def load(cls, folder: Path) -> ActionRows:
        """Return the rows in a folder, mapped from their files."""
        return cls(**mapped_arrays.open_arrays(folder, "actions"))

    def save(self, folder: Path) -> None:
        """Write the rows into a folder."""
        arrays = {each.name: getattr(self, each.name) for each in fields(self)}
        write_arrays(arrays, folder, "actions")

    def deduplicated(self) -> ActionRows:
        """Return each distinct row once, with the events of its repeats added up."""
        order = np.lexsort((self.mark, self.second))
        starts = run_starts(self.mark[order])
        rows = self.take(order[starts])
        events = np.add.reduceat(self.events[order], starts) if len(starts) else self.events
        return replace(rows, events=events)

    def take(self, which: NDArray[Any]) -> ActionRows:
        """Return the rows of a mask or an index."""
        return ActionRows(*(getattr(self, each.name)[which] for each in fields(self)))

    @property
    def seen(self) -> SeenActions:
        """Return the rows in the form that the estimator takes."""
        return SeenActions(self.principal, self.second, self.action)
