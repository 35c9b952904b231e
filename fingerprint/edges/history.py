"""A history on disk for a while: records in any order come back as events in the order of time, memory flat.

Example:
    >>> with History(settings) as history:
    ...     for records in files.read(sources, settings.reading):
    ...         history.add(records)
    ...     for events in history.chunks():             # oldest first, ties broken by id
    ...         scorer.take(events)

Files arrive by account, region and delivery; habits are read by time. Events are spilled as Arrow files by the hours in which
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
import pyarrow as pa
import pyarrow.compute as pc

from fingerprint.cloudtrail import Records
from fingerprint.domain import Reject
from fingerprint.entity import add_entities
from fingerprint.flatten import flatten
from fingerprint.networks import Networks
from fingerprint.settings import Settings

SPAN = 4 * 3600  # seconds of event time in one file
pa.set_memory_pool(
    pa.system_memory_pool()
)  # Arrow's own pool keeps what is freed: a quarter more at the peak
LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
REJECTS_KEPT = 1000  # shown in full; beyond that they are counted


class History:
    """Counts what was read (`records` = events with repeats + rejects + skipped) and holds the events until it is closed."""

    def __init__(self, settings: Settings, networks: Networks | None = None) -> None:
        self.settings, self.networks = settings, networks or Networks()
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
            named = add_entities(flat.events, self.settings.entities)
            named["network"] = self.networks.names(named["source_address"]).astype("str")
            events = pa.Table.from_pandas(named, preserve_index=False)
            raw = [records.lines[row] for row in flat.events["row"]]
            self._spill(events.append_column("raw", pa.array(raw, pa.large_binary())))

    def _spill(self, events: pa.Table) -> None:
        span = pc.divide(events["event_time"].cast(pa.int64()), 1_000_000 * SPAN).to_numpy()
        order = np.argsort(span, kind="stable")
        events, (numbers, starts) = events.take(order), np.unique(span[order], return_index=True)
        for number, start, end in zip(numbers.tolist(), starts, [*starts[1:], len(span)], strict=True):
            with pa.ipc.new_file(self._file(number, self.parts[number]), events.schema, options=LZ4) as file:
                file.write_table(events.slice(start, end - start))
            self.parts[number] += 1

    def _file(self, number: int, part: int) -> str:
        return str(self.folder / f"{number}-{part}.arrow")

    def first_time(self) -> int | None:
        """The earliest event time, seconds from the epoch; None without events."""
        if not self.parts:
            return None
        return int(pc.min(self._span(min(self.parts))["event_time"]).as_py().timestamp())

    def chunks(self) -> Iterator[pd.DataFrame]:
        """All events, oldest first, `reading.batch_records` at a time: a batch has its price, however small."""
        most, held = self.settings.reading.batch_records, []
        for number in sorted(self.parts):
            held.append(self._span(number))
            events = pa.concat_tables(held)
            whole = len(events) // most * most
            for start in range(0, whole, most):
                yield _frame(events.slice(start, most))
            held = [events.slice(whole)]
        if held and len(held[0]):
            yield _frame(held[0])

    def _span(self, number: int) -> pa.Table:
        """The events of one span of time, oldest first, ties broken by id."""
        files = (pa.ipc.open_file(self._file(number, part)) for part in range(self.parts[number]))
        events = pa.concat_tables(file.read_all() for file in files)
        return events.take(
            pc.sort_indices(events, [(name, "ascending") for name in ("event_time", "event_id", "raw")])
        )


def _frame(events: pa.Table) -> pd.DataFrame:
    return events.combine_chunks().to_pandas()
