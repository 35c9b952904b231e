"""A history on disk for a while: records in any order come back as events in the order of time, memory flat.

Example:
    >>> with History(settings) as history:
    ...     for records in files.read(sources, settings.reading):
    ...         history.add(records)
    ...     for events in history.chunks():             # oldest first, ties broken by id
    ...         scorer.take(events)

Files arrive by account, region and delivery; habits are read by time. Events are spilled as Parquet by the hours in which
they happened (a few hours a file) and read back span by span. Repeats are still in there: the ledger drops them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import pandas as pd

from fingerprint.cloudtrail import Records
from fingerprint.domain import Reject
from fingerprint.entity import add_entities
from fingerprint.flatten import flatten
from fingerprint.settings import Settings

SPAN = 4 * 3600  # seconds of event time in one file
REJECTS_KEPT = 1000  # shown in full; beyond that they are counted


class History:
    """Counts what was read (`records` = events with repeats + rejects + skipped) and holds the events until it is closed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.folder = Path(tempfile.mkdtemp(prefix="fingerprint-"))
        self.parts: Counter[int] = Counter()
        self.events = self.rejected = self.skipped = 0
        self.rejects: list[Reject] = []

    def __enter__(self) -> History:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def records(self) -> int:
        return self.events + self.rejected + self.skipped

    def add(self, records: Records) -> None:
        """Flatten records and spill their events."""
        flat = flatten(records)
        self.rejected += len(flat.rejects)
        self.rejects += flat.rejects[: REJECTS_KEPT - len(self.rejects)]
        self.skipped += flat.skipped
        self.events += len(flat.events)
        if len(flat.events):
            events = add_entities(flat.events, self.settings.entities)
            self._spill(events.assign(raw=[records.lines[row] for row in events["row"]]))

    def _spill(self, events: pd.DataFrame) -> None:
        span = events["event_time"].astype("int64").to_numpy() // 1_000_000 // SPAN
        for number in np.unique(span):
            file = self.folder / f"{number}-{self.parts[number]}.parquet"
            events[span == number].to_parquet(file, index=False, compression="lz4")
            self.parts[number] += 1

    def first_time(self) -> int | None:
        """The earliest event time, seconds from the epoch; None without events."""
        if not self.parts:
            return None
        number = min(self.parts)
        files = [self.folder / f"{number}-{part}.parquet" for part in range(self.parts[number])]
        return int(
            min(
                pd.read_parquet(file, columns=["event_time"])["event_time"].min() for file in files
            ).timestamp()
        )

    def chunks(self) -> Iterator[pd.DataFrame]:
        """All events, oldest first, `reading.batch_records` at a time: a batch has its price, however small."""
        most = self.settings.reading.batch_records
        events = pd.DataFrame()
        for number in sorted(self.parts):
            events = (
                pd.concat([events, self._span(number)], ignore_index=True)
                if len(events)
                else self._span(number)
            )
            whole = len(events) // most * most
            for start in range(0, whole, most):
                yield events.iloc[start : start + most].reset_index(drop=True)
            events = events.iloc[whole:]
        if len(events):
            yield events.reset_index(drop=True)

    def _span(self, number: int) -> pd.DataFrame:
        """The events of one span of time, oldest first, ties broken by id."""
        files = [self.folder / f"{number}-{part}.parquet" for part in range(self.parts[number])]
        events = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
        return events.sort_values(["event_time", "event_id"], ignore_index=True)
