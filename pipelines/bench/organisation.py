"""What the bench works on: simulated organisations, and banks that learned their first days."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from fingerprint.core.settings import Settings
from fingerprint.registry.bank import Bank


@contextmanager
def organisation_files(
    principals: int, days: int, scale: float = 1.0, attacks: int = 4
) -> Iterator[list[str]]:
    """A simulated organisation's files, oldest day first, for as long as the block runs."""
    from pipelines.simulate import simulate_organisation

    with tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as folder:
        simulate_organisation(principals, days, 0, Path(folder), attacks, scale=scale)
        yield sorted(str(file) for file in Path(folder).glob("*.jsonl.gz"))


@dataclass(frozen=True)
class TrainedOrganisation:
    """A bank, what its training took, and the events of the days that follow it."""

    settings: Settings
    bank: Bank
    core_seconds: float
    events: list[pd.DataFrame]


@cache
def trained_organisation() -> TrainedOrganisation:
    """Ten days of 50 principals learned, four to be scored."""
    from fingerprint.training import pipeline

    settings = Settings()
    with organisation_files(50, 14) as days:
        history, following = read_events(days[:10], settings), read_events(days[10:], settings)
    start = time.process_time()
    bank = pipeline.train(history, settings)
    return TrainedOrganisation(settings, bank, time.process_time() - start, following)


def read_events(
    files: list[str], settings: Settings, columns: Sequence[str] | None = None
) -> list[pd.DataFrame]:
    """The events of files, oldest first; all their columns, or some."""
    from fingerprint.adapters.event_spool import EventSpool
    from fingerprint.adapters.files import read_sources

    with EventSpool(settings) as history:
        for records in read_sources(files, settings.reading):
            history.add_records(records)
        return [chunk if columns is None else chunk[list(columns)] for chunk in history.batches()]
