"""Event spool: a history on disk, to turn records in any order into events in the order of time, in constant memory.

Example:
    >>> with EventSpool(settings, span=parse_time_range("2026-01-01", "2026-02-01")) as spool:
    ...     spool.add_batches(files.read_sources(sources, settings.reading))
    ...     for events in spool.batches():             # oldest first, ties broken by id
    ...         scorer.measure(events)

Files are ordered by account, region and delivery, but models need events by time. Events are written to Arrow files by event time
(a few hours a file, a *bucket*) and read back bucket by bucket.

- Repeats are kept: the scorer state drops them.
- Events outside the wanted span, and events dated in the future (`sources.arrival`), are counted and not kept.
- A history ends when its activity ends (`state.event_clock`), not with its latest event: a few events dated after all others are
  `after_end`, and `trim` drops them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.compute.backend import HOST_BACKEND, Backend
from fingerprint.compute.column_table import ColumnTable
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import Reject
from fingerprint.core.read_ahead import read_ahead
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME, TimeRange
from fingerprint.sources.arrival import Now, future_dated_mask, wall_clock_ms
from fingerprint.sources.base import FlattenedRecords, RecordBatch
from fingerprint.sources.decode import DecodedMessages, event_times_ms
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from fingerprint.sources.joined_lines import lines_array
from fingerprint.sources.networks import NetworkTable
from fingerprint.state.event_clock import (
    MAX_PENDING_AGE,
    ConfirmationRule,
    confirmations_needed,
    confirmed_watermark,
    two_principals_needed,
)

BUCKET_SECONDS = 4 * 3600  # seconds of event time in one file
MAX_LATE_EVENTS, MAX_LATE_SHARE = 20, 100  # 20 events, or one in 100, may have come hours late
# Arrow's own pool keeps freed memory: with it, the peak is a quarter higher.
pa.set_memory_pool(pa.system_memory_pool())
TIME_TYPE = pa.timestamp("us", "UTC")
# Without Arrow's threads: a column is too little work for one, and files of a hundred events took two to three times the CPU.
LZ4_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
MAX_REJECTS = 1000  # rejects kept in full; further ones are only counted


class EventSpool:
    """Events on disk, and counters: `records` = events with repeats + events outside the span + rejects + skipped.

    The folder is removed at the end of the block. If the span counts days back from the newest event, its beginning is unknown
    while records are being read: `trim` drops the earlier events afterwards.
    """

    def __init__(
        self,
        settings: Settings,
        networks: NetworkTable | None = None,
        span: TimeRange = ALL_TIME,
        backend: Backend = HOST_BACKEND,
        now: Now = wall_clock_ms,
        columns: Sequence[str] | None = None,
    ) -> None:
        """`columns` are kept of each event beside `network` and `raw`; by default, all are."""
        self.settings, self.networks, self.span = settings, networks or NetworkTable(), span
        self.backend, self.now, self.columns = backend, now, columns
        self.folder = Path(tempfile.mkdtemp(prefix="fingerprint-"))
        self.part_counts: Counter[int] = Counter()
        self.event_counts: Counter[int] = Counter()  # events of each bucket, by its number
        self.events = self.outside_span = self.rejected = self.skipped = 0
        self.future_dated = 0  # events dated past their arrival
        self.after_end = 0  # events past the end, left out by `cut`
        self.rejects: list[Reject] = []
        # First and last event that was read, including events outside the span
        self.observed_range: tuple[datetime, datetime] | None = None

    def __enter__(self) -> EventSpool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def records(self) -> int:
        """The number of records read: the sum over all outcomes."""
        return (
            self.events
            + self.outside_span
            + self.future_dated
            + self.after_end
            + self.rejected
            + self.skipped
        )

    def figures(self) -> dict[str, Any]:
        """Return the counters under their names in `score --json`."""
        return {
            "records": self.records,
            "rejects": self.rejected,
            "skipped": self.skipped,
            "future_dated": self.future_dated,
            "outside": self.outside_span,
            "reasons": self.rejection_reasons(),
        }

    def rejection_reasons(self) -> list[str]:
        """Return the rejects as `source position: reason`, at most MAX_REJECTS."""
        return [str(each) for each in self.rejects]

    def add_batches(
        self, batches: Iterable[RecordBatch], progress: Callable[[str, int], None] = lambda *_: None
    ) -> None:
        """Flatten batches of records on the backend, and write their events to disk from the host.

        Three batches are in memory: while one is written, the next is flattened and another is read.
        `progress` is called after each batch with "reading records" and their number.
        """
        library = self.backend.dataframe_library
        for records, flattened in read_ahead((each, flatten(each, library)) for each in read_ahead(batches)):
            self._add_flattened(records, flattened)
            progress("reading records", self.records)

    def _add_flattened(self, records: RecordBatch, flattened: FlattenedRecords) -> None:
        self._count(flattened.rejects, flattened.skipped)
        events = frames.to_pandas(flattened.events)
        events = self._filter_span(events, future_dated_mask(event_times_ms(events), self.now()))
        if len(events):
            self._spill_with_networks(add_entity_columns(events, self.settings.entities), records.lines)

    def add_events(self, decoded: DecodedMessages, rejects: list[Reject], future: NDArray[np.bool_]) -> None:
        """Write the events of messages to disk, except those in the future.

        `rejects` are those of the messages, with their positions in the topic; `future` (n,) marks events dated in the future.
        """
        self._count(rejects, decoded.skipped)
        events = self._filter_span(frames.to_pandas(decoded.events), future)
        if len(events):
            self._spill_with_networks(events, decoded.lines)

    def _count(self, rejects: list[Reject], skipped: int) -> None:
        self.rejected += sum(each.count for each in rejects)
        self.rejects += rejects[: MAX_REJECTS - len(self.rejects)]
        self.skipped += skipped

    def _filter_span(self, events: pd.DataFrame, future: NDArray[np.bool_]) -> pd.DataFrame:
        """Return the events within the span and not in the future; count the others."""
        if future.any():
            self.future_dated += int(future.sum())
            events = frames.select_rows(events, ~future)
        if not len(events):
            return events
        first, last = events["event_time"].min(), events["event_time"].max()
        self.observed_range = (
            (min(first, self.observed_range[0]), max(last, self.observed_range[1]))
            if self.observed_range
            else (first, last)
        )
        inside = self.span.contains(events["event_time"])
        self.outside_span += len(inside) - int(inside.sum())
        self.events += int(inside.sum())
        return frames.select_rows(events, inside)

    def _spill_with_networks(self, named: pd.DataFrame, lines: list[bytes]) -> None:
        network = self.networks.lookup(named["source_address"])
        kept = named if self.columns is None else frames.select_columns(named, [*self.columns, "row"])
        events = _sorted_by_bucket(pa.Table.from_pandas(kept.assign(network=network), preserve_index=False))
        # Records are most of the bytes, so they are put in order before they are copied.
        raw = lines_array([lines[row] for row in events["row"].to_pylist()])
        self._spill(events.drop_columns("row").append_column("raw", raw))

    def _spill(self, events: pa.Table) -> None:
        """Write events that are in the order of their buckets."""
        numbers, starts = np.unique(_bucket_numbers(events), return_index=True)
        for number, start, end in zip(numbers.tolist(), starts, [*starts[1:], len(events)], strict=True):
            part = _with_dictionaries(events.slice(start, end - start))
            with pa.ipc.new_file(
                self._file(number, self.part_counts[number]), part.schema, options=LZ4_OPTIONS
            ) as file:
                file.write_table(part)
            self.part_counts[number] += 1
            self.event_counts[number] += int(end - start)

    def _file(self, number: int, part: int) -> str:
        return str(self.folder / f"{number}-{part}.arrow")

    def earliest_event_time(self) -> int | None:
        """Return the earliest event time, seconds from the epoch; None without events."""
        if not self.part_counts:
            return None
        return int(pc.min(self._read_bucket(min(self.part_counts))["event_time"]).as_py().timestamp())

    def activity_start(self) -> int | None:
        """Return about when the activity begins, in seconds from the epoch; None without events.

        The earliest hundredth of the events, and at least twenty, are ignored: events of an earlier time that were delivered
        again would otherwise set the beginning.
        """
        few, ahead = max(MAX_LATE_EVENTS, self.events // MAX_LATE_SHARE), 0
        for number in sorted(self.part_counts):
            if ahead + self.event_counts[number] > few:
                times = self._read_bucket(number)["event_time"].sort()
                return int(times[few - ahead].as_py().timestamp())
            ahead += self.event_counts[number]
        return self.earliest_event_time()

    def activity_end(self) -> datetime | None:
        """Return when the activity ends; None without events.

        It is the latest believed event time (`state.event_clock`), which the last MAX_PENDING_AGE events confirm. A history with
        fewer events ends with its latest one.
        """
        ends = self._latest_events(MAX_PENDING_AGE)
        if ends is None:
            return None
        if self.events < MAX_PENDING_AGE:
            thin: datetime = ends["event_time"][-1].as_py()
            return thin
        seconds = ends["event_time"].cast(pa.int64()).to_numpy() // 1_000_000
        principals = (
            ends["principal"].dictionary_encode().combine_chunks().indices.to_numpy().astype(np.uint64)
        )
        step = self.settings.spectral.interval_seconds
        beliefs = ConfirmationRule(
            int(seconds[0]),
            confirmations_needed(self.events),
            step,
            two_principals_needed(seconds, principals),
        )
        end = int(np.searchsorted(seconds, confirmed_watermark(seconds, principals, beliefs), side="right"))
        latest: datetime = ends["event_time"][end - 1].as_py()
        return latest

    def _latest_events(self, most: int) -> pa.Table | None:
        """Return time and principal of at most `most` latest events, oldest first; None without events."""
        found: list[pa.Table] = []
        for number in sorted(self.part_counts, reverse=True):
            found.insert(0, self._read_bucket(number).select(["event_time", "principal"]))
            if sum(map(len, found)) >= most:
                break
        return pa.concat_tables(found).unify_dictionaries()[-most:] if found else None

    def trim(self) -> None:
        """Drop events after the end of the activity (counted in `after_end`), and before the span's days (`outside_span`)."""
        newest = self.activity_end()
        if newest is None:
            return
        for number in [each for each in self.part_counts if (each + 1) * BUCKET_SECONDS > newest.timestamp()]:
            self.after_end += self._trim_bucket(number, pc.less_equal, newest)
        if self.span.days is None:
            return
        self.span = self.span.anchored_at(newest)
        since = self.span.since or newest
        for number in [each for each in self.part_counts if each * BUCKET_SECONDS < since.timestamp()]:
            self.outside_span += self._trim_bucket(number, pc.greater_equal, since)

    def _trim_bucket(self, number: int, compare: Callable[..., Any], border: datetime) -> int:
        """Keep the events of one bucket for which `compare(time, border)` holds; return the number dropped."""
        events = self._read_bucket(number)
        kept = events.filter(compare(events["event_time"], pa.scalar(border, TIME_TYPE)))
        lost = len(events) - len(kept)
        if lost:
            self.events -= lost
            del self.event_counts[number]
            for part in range(self.part_counts.pop(number)):
                Path(self._file(number, part)).unlink()
            if len(kept):
                self._spill(kept)
        return lost

    def batches(self) -> Iterator[pd.DataFrame]:
        """Yield all events, oldest first, `reading.batch_records` at a time, because each batch has a fixed cost."""
        yield from map(frames.from_arrow, self._tables())

    def batches_to_score(self) -> Iterator[Frame]:
        """Yield the same batches as tables for scorers: of the backend's library, or a ColumnTable on a host."""
        library = self.backend.dataframe_library
        if library == HOST_BACKEND.dataframe_library:
            yield from map(ColumnTable.from_arrow, self._tables())
        else:
            yield from (frames.to_device(events, library) for events in self.batches())

    def _tables(self) -> Iterator[pa.Table]:
        most, tables, waiting = self.settings.reading.batch_records, list[pa.Table](), 0
        for number in sorted(self.part_counts):
            tables.append(self._read_bucket(number))
            waiting += len(tables[-1])
            # Tables are concatenated once per batch: with each bucket, a long history would be copied again and again.
            if waiting >= most:
                events = pa.concat_tables(tables)
                whole = waiting // most * most
                yield from (events.slice(start, most) for start in range(0, whole, most))
                tables, waiting = [events.slice(whole)], waiting - whole
        if waiting:
            yield pa.concat_tables(tables)

    def _read_bucket(self, number: int) -> pa.Table:
        """Return the events of one bucket, oldest first, ties broken by id."""
        parts = (self._file(number, part) for part in range(self.part_counts[number]))
        files = (pa.ipc.open_file(part, options=READ_OPTIONS) for part in parts)
        events = pa.concat_tables(file.read_all() for file in files)
        return events.take(
            pc.sort_indices(events, [(name, "ascending") for name in ("event_time", "event_id", "raw")])
        )


def _sorted_by_bucket(events: pa.Table) -> pa.Table:
    """Return events in the order of their buckets; events of one bucket keep their order."""
    number = _bucket_numbers(events)
    if (number[1:] >= number[:-1]).all():
        return events
    return events.take(np.argsort(number, kind="stable"))


def _bucket_numbers(events: pa.Table) -> NDArray[np.int64]:
    """Return the number of each event's bucket, (N,)."""
    number: NDArray[np.int64] = pc.divide(
        events["event_time"].cast(pa.int64()), 1_000_000 * BUCKET_SECONDS
    ).to_numpy()
    return number


def _with_dictionaries(events: pa.Table) -> pa.Table:
    """Return events with all text columns except ids as dictionaries: some take a tenth on disk, and are read as codes."""
    return pa.table(
        {
            name: column.dictionary_encode()
            if pa.types.is_large_string(column.type) and name != "event_id"
            else column
            for name, column in zip(events.column_names, events.columns, strict=True)
        }
    )
