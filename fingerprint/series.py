"""The series of all entities as one sparse matrix, and the z of any of its open intervals.

Example:
    >>> series = Series(settings.spectral)
    >>> keys = series.count(owner, channel, interval, since, weight)    # a row per owner and channel; counts grow
    >>> series.z(series.find(keys), interval)                 # how strange is each count, as it stands now
    array([0.3, 7.1])

Expectations are made once a day for the rows that are touched, from intervals that ended before the day began minus the
allowed lateness, so that a late record cannot move a vote already given, and where a batch is cut cannot either. Counts
that were flagged enter the past clipped at the threshold, so that an attack does not teach the series to expect the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint import hashing, settings, spectral
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

    @classmethod
    def empty(cls, intervals: int) -> Day:
        return cls(np.empty(0, np.int32), np.empty((0, intervals), np.float32), np.empty(0, np.float32))

    def add(self, rows: Ints, expected: Floats, spread: Floats) -> None:
        """Forecasts of rows (n,) that have none yet: expected (n, intervals), spread (n,)."""
        self.place[rows] = len(self.spread) + np.arange(len(rows))
        self.expected = np.concatenate([self.expected, expected])
        self.spread = np.concatenate([self.spread, spread])


@dataclass
class Series:
    """Rows are (owner, channel); cells are (row, interval) counts. Intervals are numbered from the epoch."""

    options: settings.Spectral
    rows: SortedTable = field(default_factory=lambda: SortedTable.empty(keep_first=True, row=np.int32))
    owner: Hashes = field(
        default_factory=lambda: np.empty(0, np.uint64)
    )  # (R,) the entity or principal of a row
    channel: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))  # (R,) what of it is counted
    since: Ints = field(
        default_factory=lambda: np.empty(0, np.int32)
    )  # (R,) interval since which its principal is known
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

    def count(self, owner: Hashes, channel: Hashes, interval: Ints, since: Ints, weight: Floats) -> Hashes:
        """Add `weight` to the cells of (owner, channel, interval), all (N,); returns the key of each one's row (N,).

        A key names a row for ever; the row's number may change when state is cut or put together.
        """
        keys = hashing.within(owner, channel)
        row = self.find(keys)
        new = np.flatnonzero(row < 0)
        if len(new):
            self._add_rows(keys[new], owner[new], channel[new], since[new])
            row[new] = self.find(keys[new])
        self.open.add(_cell(row, interval), count=weight)
        return keys

    def find(self, keys: Hashes) -> Ints:
        """The row of each key, -1 where there is none: (N,) -> (N,)."""
        codes, distinct = pd.factorize(keys)  # a batch names few rows, many times
        return self.rows.get(distinct, "row", missing=-1)[codes]

    def _add_rows(self, keys: Hashes, owner: Hashes, channel: Hashes, since: Ints) -> None:
        fresh, first = np.unique(keys, return_index=True)
        self.rows.add(fresh, row=len(self.since) + np.arange(len(fresh)))
        self.owner = np.concatenate([self.owner, owner[first]])
        self.channel = np.concatenate([self.channel, channel[first]])
        self.since = np.concatenate([self.since, since[first]])

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

    def curve(
        self, row: int, interval: int, days: int, end: int
    ) -> tuple[int, Floats, Floats, NDArray[np.intp]]:
        """What an analyst is shown of one row: the last `days`, that of `interval` among them, up to interval `end` - 1.

        Returns the first interval, counts, expected counts (what the kept frequencies say of the past, the forecast of
        the last day) and the places where the count was flagged. Counts of the days before are shown as they enter the
        past, clipped, whether or not they have: so it does not matter when the curve is drawn.
        """
        rows = np.array([row], np.int32)
        today = interval // self.per_day * self.per_day
        start, end = (
            max(today - (days - 1) * self.per_day, int(self.since[row])),
            min(end, today + self.per_day),
        )
        counts = self.dense(rows, start, end, clip=False)[0]
        counts[: max(today - start, 0)] = self.dense(rows, min(start, today), today)[0]
        ahead, spread = self.expected(np.repeat(rows, end - today), np.arange(today, end, dtype=np.int32))
        width = int(self._windows(np.array([today - self.gap - self.since[row]]))[0])
        kept = spectral.keep_strongest(
            self.dense(rows, today - self.gap - width, today - self.gap), self.options.quantile
        )[0]
        expected = np.concatenate([kept, np.repeat(ahead[:1], self.gap), ahead])[-len(counts) :]
        expected = np.concatenate([np.zeros(len(counts) - len(expected), np.float32), expected])
        flagged = spectral.z(counts, expected, spread[:1], self.options.floor) >= self.options.threshold
        return start, counts, expected, np.flatnonzero(flagged)

    # --- forecasts ----------------------------------------------------------------------------------------------------

    def _day(self, number: int, row: Ints) -> Day:
        """The forecasts of a day, made now for those of the rows that have none yet."""
        day = self._begun(number)
        wanted = np.unique(row[day.place[row] < 0])
        if len(wanted):
            day.add(wanted, *self._forecast(number * self.per_day, wanted))
        return day

    def _begun(self, number: int) -> Day:
        """The forecasts of a day, with a place for every row there is now."""
        day = self.days.setdefault(number, Day.empty(self.per_day))
        day.place = np.concatenate([day.place, np.full(len(self.since) - len(day.place), -1, np.int32)])
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

    def dense(self, rows: Ints, start: int, end: int, clip: bool = True) -> Floats:
        """Counts of rows over intervals start ... end - 1, flagged ones clipped: (R, end - start)."""
        out = np.zeros((len(rows), end - start), np.float32)
        for table in (self.past, self.open):
            keys, columns = table.settle()
            which, place = ranges(
                np.searchsorted(keys, _cell(rows, start)), np.searchsorted(keys, _cell(rows, end))
            )
            cells = keys[place]
            counts = columns["count"][place]
            if clip and table is self.open:
                counts = self._clipped(cells, counts)
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

    # --- put away and taken back --------------------------------------------------------------------------------------

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Rows, cells and the forecasts of open days as plain arrays by name; open cells are kept unclipped.

        Forecasts cannot be made anew: late records may have changed the past that they were made from.
        """
        out: dict[str, NDArray[Any]] = {"owner": self.owner, "channel": self.channel, "since": self.since}
        for name in ("past", "open"):
            out |= {f"{name}.{column}": array for column, array in getattr(self, name).items()}
        return out | self._days_as_arrays()

    def _days_as_arrays(self) -> dict[str, NDArray[Any]]:
        days = [(number, day, np.flatnonzero(day.place >= 0)) for number, day in sorted(self.days.items())]
        none = Day.empty(self.per_day)
        return {
            "days.number": np.repeat(
                np.array([number for number, _, _ in days], np.int32), [len(row) for _, _, row in days]
            ),
            "days.row": np.concatenate([none.place, *(row.astype(np.int32) for _, _, row in days)]),
            "days.expected": np.concatenate(
                [none.expected, *(day.expected[day.place[row]] for _, day, row in days)]
            ),
            "days.spread": np.concatenate(
                [none.spread, *(day.spread[day.place[row]] for _, day, row in days)]
            ),
        }

    @classmethod
    def from_arrays(cls, options: settings.Spectral, arrays: Mapping[str, NDArray[Any]]) -> Series:
        """Series that go on where the arrays left off."""
        series = cls(options)
        if "owner" in arrays:
            series.merge(arrays)
        return series

    def become(self, other: Series) -> None:
        """Go on as another one, for everybody who holds this one."""
        for each in fields(self):
            setattr(self, each.name, getattr(other, each.name))

    def merge(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take in the rows of other series, none of which is here: they are numbered after those that are."""
        before = len(self.owner)
        keys = hashing.within(arrays["owner"], arrays["channel"])
        self.rows.add(keys, row=before + np.arange(len(keys)))
        self.owner, self.channel, self.since = (
            np.concatenate([getattr(self, name), arrays[name]]) for name in ("owner", "channel", "since")
        )
        for name in ("past", "open"):
            getattr(self, name).merge(arrays[f"{name}.key"] + _cell(before, 0), count=arrays[f"{name}.count"])
        for number in np.unique(arrays["days.number"]):
            which = arrays["days.number"] == number
            rows = arrays["days.row"][which] + np.int32(before)
            self._begun(int(number)).add(rows, arrays["days.expected"][which], arrays["days.spread"][which])

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

    def filled(self, start: int, end: int) -> tuple[Ints, Ints, Floats]:
        """The cells of intervals start ... end - 1 in which something came, and how strange their counts are now: rows,
        intervals and z (NaN for no opinion) of each."""
        row, interval = self.counted(start, end)
        return row, interval, self._z_of_cells(_cell(row, interval))

    def counted(self, start: int, end: int) -> tuple[Ints, Ints]:
        """The cells of open intervals start ... end - 1 in which something came: rows and intervals."""
        row, interval = _split(self.open.settle()[0])
        here = (interval >= start) & (interval < end)
        return row[here], interval[here]

    def silences(self, channel: np.uint64, start: int, end: int) -> tuple[Ints, Ints, Floats]:
        """Intervals start ... end - 1 in which far less came than expected: rows, intervals and z (above 0) of each.

        Only rows of `channel` that were busy in the last days are looked at: what is expected to be less than
        threshold squared cannot be missed (the Poisson root).
        """
        rows = self.busy(channel, start)
        row, interval = (grid.ravel().astype(np.int32) for grid in np.meshgrid(rows, np.arange(start, end)))
        lack = -self.z(row, interval)
        silent = lack >= self.options.threshold
        return row[silent], interval[silent], lack[silent]

    def latest(self) -> Ints:
        """The last interval in which something was counted in each row, -1 for none: (R,)."""
        out = np.full(len(self.owner), -1, np.int32)
        for table in (self.past, self.open):
            row, interval = _split(table.settle()[0])  # in order: the last cell of a row is its latest
            ends = np.flatnonzero(np.diff(row, append=-1))
            out[row[ends]] = np.maximum(out[row[ends]], interval[ends])
        return out

    def busy(self, channel: np.uint64, start: int) -> Ints:
        """Rows of a channel in which a silence could be noticed from interval `start` on: what is counted no more now can
        only become fewer."""
        counted = np.zeros(len(self.since), np.float32)
        for table in (self.past, self.open):
            keys, columns = table.settle()
            row, interval = _split(keys)
            recent = interval >= start - 2 * self.per_day
            np.add.at(counted, row[recent], columns["count"][recent])
        return np.flatnonzero((counted >= self.options.threshold**2) & (self.channel == channel)).astype(
            np.int32
        )


def _cell(row: Any, interval: Any) -> NDArray[np.int64]:
    return np.asarray(row).astype(np.int64) << 32 | np.asarray(interval).astype(np.int64)


def _split(cells: NDArray[np.int64]) -> tuple[Ints, Ints]:
    return (cells >> 32).astype(np.int32), (cells & 0xFFFFFFFF).astype(np.int32)
