"""A history on disk for a while: records in any order come back as events in the order of time, memory flat.

Example:
    >>> with History(settings, span=spans.of("2026-01-01", "2026-02-01")) as history:
    ...     for records in files.read(sources, settings.reading):
    ...         history.add(records)
    ...     for events in history.chunks():             # oldest first, ties broken by id
    ...         scorer.take(events)

Files arrive by account, region and delivery; habits are read by time. Events are spilled as Arrow files by the hours in which
they happened (a few hours a file) and read back span by span. Repeats are still in there: the ledger drops them. Events outside
the span that is wanted are counted and not kept.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import TracebackType

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fingerprint import frames
from fingerprint.backend import HOST, Backend
from fingerprint.cloudtrail import Records
from fingerprint.domain import Reject
from fingerprint.entity import add_entities
from fingerprint.flatten import flatten
from fingerprint.ledger import LEAP_EVENTS, LEAP_SECONDS
from fingerprint.messages import Piece
from fingerprint.networks import Networks
from fingerprint.settings import Settings
from fingerprint.spans import EVER, Span

SPAN = 4 * 3600  # seconds of event time in one file
LATE_EVENTS, LATE_SHARE = 20, 100  # so many events, or one of so many, may have come hours late
pa.set_memory_pool(
    pa.system_memory_pool()
)  # Arrow's own pool keeps what is freed: a quarter more at the peak
TIME = pa.timestamp("us", "UTC")
LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
REJECTS_KEPT = 1000  # shown in full; beyond that they are counted


class History:
    """Counts what was read (`records` = events with repeats + those outside + rejects + skipped) and holds the events until
    it is closed.

    Of a span that counts days back from the newest event only the end is known while it is being read: `cut` does the rest.
    """

    def __init__(
        self,
        settings: Settings,
        networks: Networks | None = None,
        span: Span = EVER,
        backend: Backend = HOST,
    ) -> None:
        self.settings, self.networks, self.span = settings, networks or Networks(), span
        self.backend = backend
        self.folder = Path(tempfile.mkdtemp(prefix="fingerprint-"))
        self.parts: Counter[int] = Counter()
        self.sizes: Counter[int] = Counter()  # events in the parts of a number
        self.events = self.outside = self.rejected = self.skipped = 0
        self.rejects: list[Reject] = []
        self.seen: tuple[datetime, datetime] | None = None  # first and last event that was read, also outside

    def __enter__(self) -> History:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def records(self) -> int:
        return self.events + self.outside + self.rejected + self.skipped

    def add(self, records: Records) -> None:
        """Flatten records, by the backend, and spill their events: what lies on disk came through the host."""
        flat = flatten(records, self.backend.tables)
        self._count(flat.rejects, flat.skipped)
        events = self._inside(frames.host(flat.events))
        if len(events):
            self._keep(add_entities(events, self.settings.entities), records.lines)

    def add_piece(self, piece: Piece, rejects: list[Reject]) -> None:
        """Spill the events of messages; `rejects` are the piece's, with the places they have in their topic."""
        self._count(rejects, piece.skipped)
        events = self._inside(frames.host(piece.events))
        if len(events):
            self._keep(events, piece.lines)

    def _count(self, rejects: list[Reject], skipped: int) -> None:
        self.rejected += sum(each.count for each in rejects)
        self.rejects += rejects[: REJECTS_KEPT - len(self.rejects)]
        self.skipped += skipped

    def _inside(self, events: pd.DataFrame) -> pd.DataFrame:
        """The events within the span; the others are counted."""
        if not len(events):
            return events
        first, last = events["event_time"].min(), events["event_time"].max()
        self.seen = (min(first, self.seen[0]), max(last, self.seen[1])) if self.seen else (first, last)
        inside = self.span.holds(events["event_time"])
        self.outside += len(inside) - int(inside.sum())
        self.events += int(inside.sum())
        return frames.rows(events, inside)

    def _keep(self, named: pd.DataFrame, lines: list[bytes]) -> None:
        named = named.assign(network=self.networks.names(named["source_address"]))
        events = pa.Table.from_pandas(named, preserve_index=False)
        raw = [lines[row] for row in named["row"]]
        self._spill(events.append_column("raw", pa.array(raw, pa.large_binary())))

    def _spill(self, events: pa.Table) -> None:
        span = pc.divide(events["event_time"].cast(pa.int64()), 1_000_000 * SPAN).to_numpy()
        order = np.argsort(span, kind="stable")
        events, (numbers, starts) = events.take(order), np.unique(span[order], return_index=True)
        for number, start, end in zip(numbers.tolist(), starts, [*starts[1:], len(span)], strict=True):
            with pa.ipc.new_file(self._file(number, self.parts[number]), events.schema, options=LZ4) as file:
                file.write_table(events.slice(start, end - start))
            self.parts[number] += 1
            self.sizes[number] += int(end - start)

    def _file(self, number: int, part: int) -> str:
        return str(self.folder / f"{number}-{part}.arrow")

    def first_time(self) -> int | None:
        """The earliest event time, seconds from the epoch; None without events."""
        if not self.parts:
            return None
        return int(pc.min(self._span(min(self.parts))["event_time"]).as_py().timestamp())

    def begins(self) -> int | None:
        """About when it begins, seconds from the epoch; None without events. The earliest of a hundred, and twenty of a few, are
        left out: what was delivered again hours later would begin a history that is over."""
        few, ahead = max(LATE_EVENTS, self.events // LATE_SHARE), 0
        for number in sorted(self.parts):
            if ahead + self.sizes[number] > few:
                times = self._span(number)["event_time"].sort()
                return int(times[few - ahead].as_py().timestamp())
            ahead += self.sizes[number]
        return self.first_time()

    def last_time(self) -> datetime | None:
        """The latest event time that is believed; None without events. Like the ledger, it believes fewer than LEAP_EVENTS
        that lie more than LEAP_SECONDS past all others to be wrong: one record dated 2199 would be the end of everything."""
        ahead, numbers = 0, sorted(self.parts)
        while len(numbers) > 1 and (numbers[-1] - numbers[-2] - 1) * SPAN > LEAP_SECONDS:
            ahead += self.sizes[numbers[-1]]
            if ahead >= LEAP_EVENTS:
                break
            numbers.pop()
        latest: datetime | None = pc.max(self._span(numbers[-1])["event_time"]).as_py() if numbers else None
        return latest

    def cut(self) -> None:
        """Let go, and count as outside, what lies before the days that the span counts back from the newest event."""
        newest = self.last_time()
        if newest is None or self.span.days is None:
            return
        self.span = self.span.before(newest)
        since = self.span.since or newest
        for number in [each for each in self.parts if each * SPAN < since.timestamp()]:
            self._cut(number, since)

    def _cut(self, number: int, since: datetime) -> None:
        events = self._span(number)
        events = events.filter(pc.greater_equal(events["event_time"], pa.scalar(since, TIME)))
        lost = self.sizes.pop(number) - len(events)
        self.events, self.outside = self.events - lost, self.outside + lost
        for part in range(self.parts.pop(number)):
            Path(self._file(number, part)).unlink()
        if len(events):
            self._spill(events)

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
