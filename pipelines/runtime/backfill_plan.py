"""The plan of a backfill: its options, the places of its files, and which part has which principals.

Example:
    >>> plan = BackfillPlan(Path("work/score-5d41"), bank_folder, version, settings, every_event=False, keeps_state=True, parts=8)
    >>> plan.results_folder(3)
    PosixPath('work/score-5d41/results/003')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fingerprint.adapters import files
from fingerprint.adapters.files import SourceFile
from fingerprint.analysis import threshold_what_if
from fingerprint.compute import hashing
from fingerprint.compute.arrays import Mask
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME, TimeRange
from fingerprint.registry import state_files
from fingerprint.registry.bank import Bank
from fingerprint.registry.initial_state import FROM_BANK
from fingerprint.training.dataset import PartitionedDataset

PLAN_FORMAT = 4  # version of the layout of the work folder
RESULT_SHAPING_SECTIONS = {
    "reading",
    "entities",
    "autoencoder",
    "spectral",
    "sequence",
    "isolation_forest",
    "detectors",
    "voting",
    "alerts",
}


@dataclass(frozen=True)
class BackfillPlan:
    """The plan of a backfill: its options, and the places of its files, which have the same names for all workers.

    folder/
      read.json          figures of the reading, and the clock of all parts
      history/           events by part (`PartitionedDataset`)
      start/003/         the scorer state that a part starts from, if an earlier run saved one
      results/003/       alerts, votes, final state and figures of a part; it appears when it is complete
    """

    folder: Path
    bank: Path
    version: str
    settings: Settings
    every_event: bool
    keeps_state: bool
    span: TimeRange = ALL_TIME
    parts: int = 1
    started_from: str = FROM_BANK

    @property
    def read_file(self) -> Path:
        """Return the file of figures that is written when all sources are read."""
        return self.folder / "read.json"

    @property
    def history(self) -> PartitionedDataset:
        """Return the partitioned history."""
        return PartitionedDataset(self.folder / "history", self.parts)

    def results_folder(self, part: int) -> Path:
        """Return the folder of the results of a part."""
        return self.folder / "results" / f"{part:03}"

    def initial_state_folder(self, part: int) -> Path:
        """Return the folder of the state that a part starts from."""
        return self.folder / "start" / f"{part:03}"

    def bucket_mask(self, part: int) -> Mask:
        """Return the mask (65536,) of the hash buckets of a part."""
        virtual = np.arange(hashing.VIRTUAL_PARTITIONS, dtype=np.uint64)
        return hashing.buckets_of_partitions(self.history.partition_of(virtual << np.uint64(56)) == part)


def plan_fingerprint(
    found: Sequence[SourceFile],
    bank: Bank,
    settings: Settings,
    state_folder: Path | None,
    every_event: bool,
    span: TimeRange = ALL_TIME,
) -> dict[str, Any]:
    """Return all that shapes the answers of a backfill: a run with the same fingerprint resumes the same work."""
    state_file = state_folder and state_folder / state_files.STATE_FILE
    kept = [str(state_file)] if state_file and state_file.exists() else []
    beside = [*kept, *filter(None, [settings.reading.networks_file])]
    return {
        "format": PLAN_FORMAT,
        "files": files.content_tags(found, beside),
        "span": str(span),
        "bank": bank.version,
        "keeps_state": state_folder is not None,
        "every_event": every_event,
        "settings": settings.model_dump(mode="json", include=RESULT_SHAPING_SECTIONS),
        "min_vote_score": settings.database.min_vote_score,
        "held_to": threshold_what_if.describe_threshold(settings, None),
    }
