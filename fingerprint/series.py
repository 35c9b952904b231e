"""The series of all entities as one sparse matrix, and the z of any of its open intervals.

Example:
    >>> series = Series(settings.spectral)
    >>> row = series.count(keys, interval, since)             # one row of the matrix per key; counts grow
    >>> series.z(row, interval)                               # how strange is each count, as it stands now
    array([0.3, 7.1])

Expectations are made once a day for the rows that are touched, from intervals that ended before the day began minus the
allowed lateness, so that a late record cannot move a vote already given, and where a batch is cut cannot either. Counts
that were flagged enter the past clipped at the threshold, so that an attack does not teach the series to expect the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint import settings, spectral
from fingerprint.hashing import Hashes
from fingerprint.tables import SortedTable, ranges

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]

CHUNK = 4096  # rows made dense at a time: 4096 x 504 x 4 B = 8 MB


@dataclass
class Day:
    """Forecasts of one day: `place` (rows,) is a row's index in `expected` (n, intervals) and `spread` (n,), -1 if none."""

    place: Ints
    expected: Floats
    spread: Floats


@dataclass
class Series:
    """Rows are (owner, channel) keys; cells are (row, interval) counts. Intervals are numbered from the epoch."""

    options: settings.Spectral
    rows: SortedTable = field(default_factory=lambda: SortedTable.empty(keep_first=True, row=np.int32))
    since: Ints = field(default_factory=lambda: np.empty(0, np.int32))  # interval since which a row's principal is known
    past: SortedTable = field(default_factory=lambda: SortedTable.empty(key=np.int64, count=np.float32))
    open: SortedTable = field(default_factory=lambda: SortedTable.empty(key=np.int64, count=np.float32))
    days: dict[int, Day] = field(default_factory=dict)

    @property
    def per_day(self) -> int:
        return 86400 // self.options.interval_seconds

    @property
    def gap(self) -> int:
        """Intervals before a moment that late records may still change, the running one not counted."""
        return -(-self.options.lateness_seconds // self.options.interval_seconds)

    def count(self, keys: Hashes, interval: Ints, since: Ints, weight: Floats | None = None) -> Ints:
        """Add to the cells of (key, interval); unknown keys get a row. All (N,); returns each key's row."""
        row = self.row_of(keys, since)
        self.open.add(_cell(row, interval), count=np.ones(len(row)) if weight is None else weight)
        return row

    def row_of(self, keys: Hashes, since: Ints) -> Ints:
        """Rows of keys, made where there are none: keys (N,), since (N,) -> (N,)."""
        fresh, first = np.unique(keys[~self.rows.has(keys)], return_index=True)
        if len(fresh):
            self.rows.add(fresh, row=len(self.since) + np.arange(len(fresh)))
            self.since = np.concatenate([self.since, since[~self._had(keys, fresh)][first]])
        return self.rows.get(keys, "row", missing=-1)

    def _had(self, keys: Hashes, fresh: Hashes) -> NDArray[np.bool_]:
        return ~np.isin(keys, fresh)

    def z(self, row: Ints, interval: Ints) -> Floats:
        """z of the counts of cells as they stand: row (N,), -1 for none, and interval (N,) -> (N,), NaN for no opinion."""
        cells, inverse = np.unique(_cell(row, interval), return_inverse=True)
        return self._z_of_cells(cells)[inverse]

    def _z_of_cells(self, cells: NDArray[np.int64]) -> Floats:
        row, interval = _split(cells)
        out = np.full(len(cells), np.nan, np.float32)
        counts = self.open.get(cells, "count") + self.past.get(cells, "count")
        for day in np.unique(interval // self.per_day):
            here = np.flatnonzero((interval // self.per_day == day) & (row >= 0))
            expected, spread = self.expected(row[here], interval[here])
            out[here] = spectral.z(counts[here], expected, spread, self.options.floor)
        return out

    def expected(self, row: Ints, interval: Ints) -> tuple[Floats, Floats]:
        """Expected count and spread of cells of one day, (N,) each; NaN while warming up."""
        if not len(row):
            return np.empty(0, np.float32), np.empty(0, np.float32)
        day = self._day(int(interval[0]) // self.per_day, row)
        place = day.place[row]
        return day.expected[place, interval % self.per_day], day.spread[place]

    # --- forecasts ----------------------------------------------------------------------------------------------------

    def _day(self, number: int, row: Ints) -> Day:
        """The forecasts of a day, made now for those of the rows that have none yet."""
        day = self.days.setdefault(
            number, Day(np.empty(0, np.int32), np.empty((0, self.per_day), np.float32), np.empty(0, np.float32))
        )
        day.place = np.concatenate([day.place, np.full(len(self.since) - len(day.place), -1, np.int32)])
        wanted = np.unique(row[day.place[row] < 0])
        if len(wanted):
            expected, spread = self._forecast(number * self.per_day, wanted)
            day.place[wanted] = len(day.spread) + np.arange(len(wanted))
            day.expected = np.concatenate([day.expected, expected])
            day.spread = np.concatenate([day.spread, spread])
        return day

    def _forecast(self, start: int, rows: Ints) -> tuple[Floats, Floats]:
        """Forecasts of the day that begins at interval `start`: rows (R,) -> (R, intervals a day), (R,)."""
        end = start - self.gap
        expected = np.full((len(rows), self.per_day), np.nan, np.float32)
        spread = np.full(len(rows), np.nan, np.float32)
        window = self._windows(end - self.since[rows])
        for width in np.unique(window[window > 0]):
            same = np.flatnonzero(window == width)
            for at in range(0, len(same), CHUNK):
                part = same[at : at + CHUNK]
                expected[part], spread[part] = self._forecast_dense(rows[part], end, int(width))
        return expected, spread

    def _forecast_dense(self, rows: Ints, end: int, width: int) -> tuple[Floats, Floats]:
        dense = self.dense(rows, end - width, end)
        expected = np.zeros((len(rows), self.per_day), np.float32)
        spread = np.zeros(len(rows), np.float32)
        active = np.flatnonzero(dense.any(axis=1))  # nothing expects nothing
        if len(active):
            expected[active], spread[active] = spectral.forecast(
                dense[active], self.per_day, self.options.quantile, self.gap
            )
        return expected, spread

    def _windows(self, known: Ints) -> Ints:
        """Intervals of the past that are used: whole weeks if there is one, else whole days, 0 while warming up."""
        days = np.minimum(known // self.per_day, self.options.history_days)
        days = np.where(days >= 7, days // 7 * 7, days)
        return np.where(days >= self.options.warm_up_days, days * self.per_day, 0).astype(np.int32)

    def dense(self, rows: Ints, start: int, end: int) -> Floats:
        """Counts of rows over intervals start ... end - 1, flagged ones clipped: (R, end - start)."""
        out = np.zeros((len(rows), end - start), np.float32)
        for table, clip in ((self.past, False), (self.open, True)):
            keys, columns = table.settle()
            which, place = ranges(np.searchsorted(keys, _cell(rows, start)), np.searchsorted(keys, _cell(rows, end)))
            cells = keys[place]
            counts = self._clipped(cells, columns["count"][place]) if clip else columns["count"][place]
            out[which, _split(cells)[1] - start] += counts
        return out

    def _clipped(self, cells: NDArray[np.int64], counts: Floats) -> Floats:
        """Counts, at most what the threshold allowed on the days whose forecasts are known."""
        row, interval = _split(cells)
        out = counts.copy()
        for number, day in self.days.items():
            here = np.flatnonzero(interval // self.per_day == number)
            here = here[row[here] < len(day.place)]
            here = here[day.place[row[here]] >= 0]
            place = day.place[row[here]]
            expected = day.expected[place, interval[here] % self.per_day]
            scale = np.maximum(day.spread[place], np.sqrt(expected + self.options.floor))
            cap = expected + self.options.threshold * scale
            out[here] = np.where(np.isnan(cap), out[here], np.minimum(out[here], cap))
        return out

    # --- time passes --------------------------------------------------------------------------------------------------

    def roll(self, interval: int) -> None:
        """Let all days that ended before `interval` minus the lateness become past; forget what no window will see."""
        today = (interval - self.gap) // self.per_day
        keys, columns = self.open.settle()
        over = _split(keys)[1] < today * self.per_day
        if over.any():
            self.past.add(keys[over], count=self._clipped(keys[over], columns["count"][over]))
            self.open.keep(~over)
        self.days = {number: day for number, day in self.days.items() if number >= today - 1}
        horizon = (today - self.options.history_days - 2) * self.per_day
        keys, _ = self.past.settle()
        kept = _split(keys)[1] >= horizon
        if not kept.all():
            self.past.keep(kept)

    def silences(self, number: int, upto: int) -> tuple[Ints, Ints, Floats]:
        """Closed intervals of a day, before `upto`, in which far less came than expected: rows, intervals, z (above 0).

        Only rows whose forecasts were made and whose expected count can be missed at all are looked at.
        """
        day = self.days.get(number)
        if day is None:
            return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32)
        rows = np.flatnonzero(day.place >= 0).astype(np.int32)
        place = day.place[rows]
        missed = spectral.z(np.zeros_like(day.expected[place]), day.expected[place], day.spread[place][:, None], self.options.floor)
        which, offset = np.nonzero(-missed >= self.options.threshold)
        row, interval = rows[which], (number * self.per_day + offset).astype(np.int32)
        closed = interval < upto
        row, interval = row[closed], interval[closed]
        lack = -self.z(row, interval)
        silent = lack >= self.options.threshold
        return row[silent], interval[silent], lack[silent]


def _cell(row: Any, interval: Any) -> NDArray[np.int64]:
    return np.asarray(row).astype(np.int64) << 32 | np.asarray(interval).astype(np.int64)


def _split(cells: NDArray[np.int64]) -> tuple[Ints, Ints]:
    return (cells >> 32).astype(np.int32), (cells & 0xFFFFFFFF).astype(np.int32)
