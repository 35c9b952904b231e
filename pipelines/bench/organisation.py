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
def organisation(principals: int, days: int, scale: float = 1.0, attacks: int = 4) -> Iterator[list[str]]:
    """A simulated organisation's files, oldest day first, for as long as the block runs."""
    from pipelines.simulate import simulate

    with tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as folder:
        simulate(principals, days, 0, Path(folder), attacks, scale=scale)
        yield sorted(str(file) for file in Path(folder).glob("*.jsonl.gz"))


@dataclass(frozen=True)
class Learned:
    """A bank, what its training took, and the events of the days that follow it."""

    settings: Settings
    bank: Bank
    core_seconds: float
    events: list[pd.DataFrame]


@cache
def learned() -> Learned:
    """Ten days of 50 principals learned, four to be scored."""
    from fingerprint.training import pipeline

    settings = Settings()
    with organisation(50, 14) as days:
        history, following = events_of(days[:10], settings), events_of(days[10:], settings)
    start = time.process_time()
    bank = pipeline.train(history, settings)
    return Learned(settings, bank, time.process_time() - start, following)


def events_of(
    files: list[str], settings: Settings, columns: Sequence[str] | None = None
) -> list[pd.DataFrame]:
    """The events of files, oldest first; all their columns, or some."""
    from fingerprint.adapters.event_spool import History
    from fingerprint.adapters.files import read

    with History(settings) as history:
        for records in read(files, settings.reading):
            history.add(records)
        return [chunk if columns is None else chunk[list(columns)] for chunk in history.chunks()]
