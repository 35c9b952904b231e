"""What a trial left in its folder: a bank that learned the beginning of a history, and every event of its end, judged.

Example:
    >>> tried = opened(Path("build/trial"), load())
    >>> tried.judged[["event_time", "principal", "autoencoder_z", "spectral_z", "verdict"]]

`pipelines.evaluation.backtest` makes it. Looking at it needs no torch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.core.alert import Alert, FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME, TimeRange
from fingerprint.registry import bank as banks
from fingerprint.registry.bank import Bank
from fingerprint.store import open_store
from pipelines.cli import console
from pipelines.cli.console import Progress
from pipelines.runtime import backend

ABOUT_FILE, BANK_FOLDER, EVENTS_FILE, DATABASE_FILE = (
    "trial.json",
    "bank",
    "events.parquet",
    "alerts.sqlite",
)  # what lies in the folder


@dataclass(frozen=True)
class Backtest:
    """`about` says of which `sources` and settings it was made, how many records were read, and from when to when: `begin`,
    `cut`, `end`, seconds from the epoch."""

    folder: Path
    settings: Settings
    about: dict[str, Any]

    @property
    def sources(self) -> list[str]:
        return list(self.about["sources"])

    @property
    def split_time(self) -> pd.Timestamp:
        """What happened before was learned, what happened from then on was judged."""
        return pd.Timestamp(self.about["cut"], unit="s", tz="UTC")

    @property
    def scored_days(self) -> float:
        """How long the judged part is, an hour at least."""
        return float(max(self.about["end"] - self.about["cut"], 3600)) / 86_400

    @cached_property
    def bank(self) -> Bank:
        return banks.open_bank(self.folder / BANK_FOLDER, self.settings.bank)

    @cached_property
    def scored_events(self) -> pd.DataFrame:
        """One row an event after the cut, oldest first, with the columns of `fingerprint score --out`."""
        return pd.read_parquet(self.folder / EVENTS_FILE).drop_duplicates("event_id", ignore_index=True)

    @cached_property
    def alerts(self) -> list[Alert]:
        """The most urgent first."""
        desk = open_store(database_url(self.folder), create=False)
        try:
            return desk.alerts.by_urgency()
        finally:
            desk.close()

    @property
    def rejects(self) -> pd.DataFrame:
        """What could not be read, the first thousand: source, position, reason."""
        return pd.DataFrame(self.about["rejects"], columns=["source", "position", "reason"])

    def events_of(self, principal: str) -> pd.DataFrame:
        """The events of one principal after the cut as they were read, oldest first. FingerprintError without any."""
        with read_history(
            self.sources, self.settings, TimeRange(since=self.split_time.to_pydatetime())
        ) as history:
            mine = [events[events["principal"] == principal] for events in history.batches()]
        if not any(map(len, mine)):
            raise FingerprintError(f"{principal!r} did nothing from {self.split_time:%Y-%m-%d %H:%M} on")
        return pd.concat(mine, ignore_index=True)


def open_backtest(folder: Path, settings: Settings) -> Backtest:
    """A trial that was made before. FingerprintError where none was finished."""
    if not (folder / ABOUT_FILE).exists():
        raise FingerprintError(
            f"there is no finished trial in {folder}: make it with pipelines.evaluation.backtest"
        )
    return Backtest(folder, settings, json.loads((folder / ABOUT_FILE).read_text()))


def read_history(
    sources: Sequence[str],
    settings: Settings,
    span: TimeRange = ALL_TIME,
    progress: Progress = console.no_progress,
) -> EventSpool:
    """The records of `sources` within `span` as a history, for a `with` statement."""
    history = backend.open_history(settings, span)
    for records in files.read_sources(list(sources), settings.reading):
        history.add_records(records)
        progress("reading records", history.records)
    return history


def database_url(folder: Path) -> str:
    return f"sqlite:///{folder / DATABASE_FILE}"
