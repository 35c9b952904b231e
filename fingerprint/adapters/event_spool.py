"""A history on disk for a while: records in any order come back as events in the order of time, memory flat.

Example:
    >>> with History(settings, span=spans.of("2026-01-01", "2026-02-01")) as history:
    ...     for records in files.read(sources, settings.reading):
    ...         history.add(records)
    ...     for events in history.chunks():             # oldest first, ties broken by id
    ...         scorer.take(events)

Files arrive by account, region and delivery; habits are read by time. Events are spilled as Arrow files by the hours in which
they happened (a few hours a file) and read back span by span. Repeats are still in there: the ledger drops them. Events outside
the span that is wanted are counted and not kept; so are events dated in the future (`arrival`).

A history ends where its activity ends (`event_clock`), not with its latest event: few events dated past all others are
`ahead`, and `cut` leaves them out.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
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
from fingerprint.compute.backend import HOST, Backend
from fingerprint.core.alert import Reject
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import EVER, Span
from fingerprint.sources.arrival import FILE_SECONDS, Now, future_dated, wall_clock
from fingerprint.sources.cloudtrail.envelopes import Records
from fingerprint.sources.cloudtrail.identity import add_entities
from fingerprint.sources.decode import Piece, milliseconds
from fingerprint.sources.flatten import flatten
from fingerprint.sources.networks import Networks
from fingerprint.state.event_clock import PATIENCE, Beliefs, believed, enough

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
        now: Now = wall_clock,
    ) -> None:
        self.settings, self.networks, self.span = settings, networks or Networks(), span
        self.backend, self.now = backend, now
        self.folder = Path(tempfile.mkdtemp(prefix="fingerprint-"))
        self.parts: Counter[int] = Counter()
        self.sizes: Counter[int] = Counter()  # events in the parts of a number
        self.events = self.outside = self.rejected = self.skipped = 0
        self.future = 0  # events dated past their arrival
        self.ahead = 0  # events past the end, left out by `cut`
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
        return self.events + self.outside + self.future + self.ahead + self.rejected + self.skipped

    def add(self, records: Records) -> None:
        """Flatten records, by the backend, and spill their events: what lies on disk came through the host."""
        flat = flatten(records, self.backend.tables)
        self._count(flat.rejects, flat.skipped)
        events = frames.host(flat.events)
        events = self._inside(events, future_dated(milliseconds(events), self.now(), FILE_SECONDS))
        if len(events):
            self._keep(add_entities(events, self.settings.entities), records.lines)

    def add_piece(self, piece: Piece, rejects: list[Reject], future: NDArray[np.bool_]) -> None:
        """Spill the events of messages but for those that are `future` (n,); `rejects` are the piece's, with the places they
        have in their topic."""
        self._count(rejects, piece.skipped)
        events = self._inside(frames.host(piece.events), future)
        if len(events):
            self._keep(events, piece.lines)

    def _count(self, rejects: list[Reject], skipped: int) -> None:
        self.rejected += sum(each.count for each in rejects)
        self.rejects += rejects[: REJECTS_KEPT - len(self.rejects)]
        self.skipped += skipped

    def _inside(self, events: pd.DataFrame, future: NDArray[np.bool_]) -> pd.DataFrame:
        """The events within the span and not of the future; the others are counted."""
        if future.any():
            self.future += int(future.sum())
            events = frames.rows(events, ~future)
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
        """When the activity ends, None without events: the latest event time that is believed (`event_clock`), as its last
        PATIENCE events bear it out. A history of fewer is thin: it ends with its latest event."""
        ends = self._latest(PATIENCE)
        if ends is None:
            return None
        if self.events < PATIENCE:
            thin: datetime = ends["event_time"][-1].as_py()
            return thin
        seconds = ends["event_time"].cast(pa.int64()).to_numpy() // 1_000_000
        principals = (
            ends["principal"].dictionary_encode().combine_chunks().indices.to_numpy().astype(np.uint64)
        )
        step = self.settings.spectral.interval_seconds
        beliefs = Beliefs(int(seconds[0]), enough(self.events), step, bool(np.ptp(principals)))
        end = int(np.searchsorted(seconds, believed(seconds, principals, beliefs), side="right"))
        latest: datetime = ends["event_time"][end - 1].as_py()
        return latest

    def _latest(self, most: int) -> pa.Table | None:
        """Time and principal of the latest events, at most so many, oldest first; None without events."""
        found: list[pa.Table] = []
        for number in sorted(self.parts, reverse=True):
            found.insert(0, self._span(number).select(["event_time", "principal"]))
            if sum(map(len, found)) >= most:
                break
        return pa.concat_tables(found)[-most:] if found else None

    def cut(self) -> None:
        """Let go what lies past the end of the activity, counted as `ahead`; and, counted as outside, what lies before the
        days that the span counts back from it."""
        newest = self.last_time()
        if newest is None:
            return
        for number in [each for each in self.parts if (each + 1) * SPAN > newest.timestamp()]:
            self.ahead += self._cut(number, pc.less_equal, newest)
        if self.span.days is None:
            return
        self.span = self.span.before(newest)
        since = self.span.since or newest
        for number in [each for each in self.parts if each * SPAN < since.timestamp()]:
            self.outside += self._cut(number, pc.greater_equal, since)

    def _cut(self, number: int, wanted: Callable[..., Any], border: datetime) -> int:
        """Keep of one span of time the events whose time is as `wanted` of the border; how many others there were."""
        events = self._span(number)
        kept = events.filter(wanted(events["event_time"], pa.scalar(border, TIME)))
        lost = len(events) - len(kept)
        if lost:
            self.events -= lost
            del self.sizes[number]
            for part in range(self.parts.pop(number)):
                Path(self._file(number, part)).unlink()
            if len(kept):
                self._spill(kept)
        return lost

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
