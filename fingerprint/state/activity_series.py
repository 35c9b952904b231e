"""Activity series of all entities as one sparse matrix, and the z of any of its open intervals.

Example:
    >>> series = ActivitySeries(settings.spectral)
    >>> keys = series.add_counts(owner, channel, interval, since, weight)    # a row per owner and channel; counts grow
    >>> series.z_scores(series.find_rows(keys), interval)                 # z of each current count
    array([0.3, 7.1])

A row is forecast once a day, when it is first needed, from intervals that ended before the day began minus the allowed lateness.
So neither a late record nor the way batches are cut can change a vote that was already given.

All arrays lie on the device of `placement`, and forecasts are computed there, for all rows that a day needs together. The keys
and rows of a query (`find_rows`, `z_scores`) may also lie on the host; the answer then lies on the host too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import arrays, hashing
from fingerprint.compute.arrays import (
    Floats,
    Ints,
    Placement,
    identity_placement,
    namespace,
    to_device_of,
    to_host,
)
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable
from fingerprint.core import settings
from fingerprint.estimators import spectral

ACTION_CHANNELS = 23  # single actions with a channel of their own
ROWS_PER_CHUNK = 4096  # rows made dense at a time: 4096 x 504 x 4 B = 8 MB
# An interval of a row can only be silent if so many days before it had so many events.
BUSY_DAYS, BUSY_COUNT = 2, spectral.SURGE_Z**2
DEVICE_BYTES = 4 << 30  # bytes that a device may spend on dense rows and on their transforms


@dataclass
class DailyForecasts:
    """Forecasts of one day, `expected` (n, intervals) and `spread` (n,); `row_index` (rows,) is a row's index in them or -1."""

    row_index: Ints
    expected: Floats
    spread: Floats

    @classmethod
    def empty(cls, intervals: int, placement: Placement = identity_placement) -> DailyForecasts:
        """Return forecasts of no row, for days with a number of intervals."""
        none = (
            np.empty(0, np.int32),
            np.empty((0, intervals), np.float32),
            np.empty(0, np.float32),
        )
        return cls(*map(placement, none))

    def add(self, rows: Ints, expected: Floats, spread: Floats) -> None:
        """Add forecasts of rows (n,) that have none yet: expected (n, intervals), spread (n,)."""
        xp = namespace(self.spread)
        self.row_index[rows] = (len(self.spread) + xp.arange(len(rows))).astype(np.int32)
        self.expected = xp.concatenate([self.expected, expected])
        self.spread = xp.concatenate([self.spread, spread])

    def of_rows(self, rows: Ints | slice) -> tuple[Ints, Floats, Floats]:
        """Return the forecasts of those of `rows` that have some, on the host.

        Returns the index of each in `rows` (K,), its expected counts (K, intervals) and its spread (K,).
        """
        index = self.row_index[rows]
        place = (index >= 0).nonzero()[0]
        known = index[place]
        return to_host(place).astype(np.int32), to_host(self.expected[known]), to_host(self.spread[known])


@dataclass
class ActivitySeries:
    """Counts by (owner, channel) and interval: rows are (owner, channel), cells (row, interval). Intervals count from 1970."""

    options: settings.Spectral
    placement: Placement = identity_placement
    rows: SortedTable = field(init=False)
    owner: Hashes = field(init=False)  # (R,) the entity or principal of a row
    channel: Hashes = field(init=False)  # (R,) which of its events are counted
    since: Ints = field(init=False)  # (R,) the interval in which its principal was first seen
    past: SortedTable = field(init=False)
    open: SortedTable = field(init=False)
    forecasts: dict[int, DailyForecasts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        empty = partial(SortedTable.empty, place=self.placement)
        self.rows = empty(keep_first=True, row=np.int32)
        self.owner, self.channel = (self.placement(np.empty(0, np.uint64)) for _ in range(2))
        self.since = self.placement(np.empty(0, np.int32))
        # Integers: a float32 has as many bytes, but from 2^24 on adding one event would not change it.
        self.past, self.open = (empty(key=np.int64, count=np.int32) for _ in range(2))

    @property
    def intervals_per_day(self) -> int:
        """The intervals of a day."""
        return self.options.intervals_per_day

    @property
    def late_intervals(self) -> int:
        """Return the number of intervals before the running one that late records may still change."""
        return self.options.late_intervals

    def add_counts(
        self, owner: Hashes, channel: Hashes, interval: Ints, since: Ints, weight: Floats
    ) -> Hashes:
        """Add `weight`, whole numbers, to the cells (owner, channel, interval), all (N,), and return the keys of their rows (N,).

        A key names a row for ever, while the number of the row may change when state is split or merged. A row begins at its
        earliest `since`, because a late record may show that its principal began sooner.
        """
        keys = hashing.combine(owner, channel)
        row = self.find_rows(keys)
        new = (row < 0).nonzero()[0]
        if len(new):
            self._add_rows(keys[new], owner[new], channel[new], since[new])
            row[new] = self.find_rows(keys[new])
        self._move_beginnings(to_device_of(row, self.since), to_device_of(since, self.since))
        self.open.add(_cell_key(row, interval), count=weight)
        return keys

    def find_rows(self, keys: Hashes) -> Ints:
        """Return the row of each key, -1 for none: (N,) -> (N,)."""
        codes, distinct = arrays.unique_inverse(keys)  # a batch names few rows, many times
        row: Ints = self.rows.get(distinct, "row", missing=-1)[codes]
        return row

    def _add_rows(self, keys: Hashes, owner: Hashes, channel: Hashes, since: Ints) -> None:
        xp = namespace(self.owner)
        fresh, first = xp.unique(keys, return_index=True)
        self.rows.add(fresh, row=len(self.since) + xp.arange(len(fresh)))
        self.owner = xp.concatenate([self.owner, owner[first]])
        self.channel = xp.concatenate([self.channel, channel[first]])
        self.since = xp.concatenate([self.since, since[first]])

    def _move_beginnings(self, row: Ints, since: Ints) -> None:
        xp = namespace(self.since)
        earlier = (since < self.since[row]).nonzero()[0]
        if len(earlier):
            xp.minimum.at(self.since, row[earlier], since[earlier])

    def z_scores(self, row: Ints, interval: Ints) -> Floats:
        """Return the z of current counts, NaN for no opinion: row (N,), -1 for none, and interval (N,) -> (N,)."""
        cells, _, inverse = arrays.unique_places(_cell_key(row, interval))
        z: Floats = to_device_of(self._cell_z_scores(to_device_of(cells, self.owner)), row)[inverse]
        return z

    def residuals(self, row: Ints, interval: Ints) -> tuple[Floats, Floats, Floats]:
        """Return current counts, expected counts and spreads: row (N,), -1 for none, and interval (N,) -> (N,) each.

        Expected counts and spreads are NaN for no opinion.
        """
        cells, _, inverse = arrays.unique_places(_cell_key(row, interval))
        found = self._cell_residuals(to_device_of(cells, self.owner))
        counts, expected, spread = (to_device_of(each, row)[inverse] for each in found)
        return counts, expected, spread

    def counts(self, row: Ints, interval: Ints) -> Floats:
        """Return current counts: row (N,), -1 for none, and interval (N,) -> (N,)."""
        return self._cell_counts(_cell_key(row, interval))

    def _cell_counts(self, cells: NDArray[np.int64]) -> Floats:
        counts: Floats = (self.open.get(cells, "count") + self.past.get(cells, "count")).astype(np.float32)
        return counts

    def _cell_residuals(self, cells: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        xp, (row, interval) = namespace(cells), _split_cells(cells)
        expected, spread = (xp.full(len(cells), np.nan, np.float32) for _ in range(2))
        for day in _unique_values(interval // self.intervals_per_day):
            here = xp.flatnonzero((interval // self.intervals_per_day == day) & (row >= 0))
            expected[here], spread[here] = self.expected_counts(row[here], interval[here])
        return self._cell_counts(cells), expected, spread

    def _cell_z_scores(self, cells: NDArray[np.int64]) -> Floats:
        out: Floats = spectral.robust_z(*self._cell_residuals(cells), spectral.COUNT_FLOOR)
        return out

    def expected_counts(self, row: Ints, interval: Ints) -> tuple[Floats, Floats]:
        """Return expected count and spread of cells of one day, (N,) each; NaN while warming up."""
        if not len(row):
            none = namespace(row).empty(0, np.float32)
            return none, none
        day = self._daily_forecasts(int(interval[0]) // self.intervals_per_day, row)
        place = day.row_index[row]
        return day.expected[place, interval % self.intervals_per_day], day.spread[place]

    def is_warm(self, since: Ints, interval: Ints) -> NDArray[np.bool_]:
        """Return whether the day of each interval (N,) has a forecast, for a principal first seen in `since` (N,)."""
        warm: NDArray[np.bool_] = (
            self._window_lengths(
                interval // self.intervals_per_day * self.intervals_per_day - self.late_intervals - since
            )
            > 0
        )
        return warm

    def owner_and_channel(self, row: int) -> tuple[np.uint64, np.uint64]:
        """Return owner and channel of a row."""
        return np.uint64(int(self.owner[row])), np.uint64(int(self.channel[row]))

    def on_host(self, keys: Hashes) -> ActivitySeries:
        """Return series on the host that include the rows of some keys (N,): these series, or a copy of these rows from a device.

        A curve takes a hundred steps, and for so few series each step is slower on a device than on the host.
        """
        if arrays.is_on_host(self.owner):
            return self
        rows, few = self.find_rows(to_device_of(keys, self.owner)), ActivitySeries(self.options)
        few.merge(self._arrays_of(namespace(rows).unique(rows[rows >= 0])))
        return few

    def curve(
        self, row: int, interval: int, days: int, end: int
    ) -> tuple[int, Floats, Floats, NDArray[np.intp]]:
        """Return the curve of one row for an analyst, over `days` days, the last of them that of `interval`, up to `end` - 1.

        Returns the first interval, counts, expected counts (by the forecast on the last day, by the kept frequencies before it)
        and the indices of flagged counts.
        """
        rows = self.placement(np.array([row], np.int32))
        today = interval // self.intervals_per_day * self.intervals_per_day
        start = max(today - (days - 1) * self.intervals_per_day, int(self.since[row]))
        end = min(end, today + self.intervals_per_day)
        counts = to_host(self.dense_counts(rows, start, end))[0]
        ahead, spread = self._forecast_ahead(rows, today, end)
        width = int(self._window_lengths(today - self.late_intervals - self.since[rows])[0])
        past = self.dense_counts(rows, today - self.late_intervals - width, today - self.late_intervals)
        usual = spectral.clip_surges(past, self.intervals_per_day)
        kept = to_host(spectral.keep_strongest_frequencies(usual, spectral.POWER_QUANTILE))[0]
        expected = np.concatenate([kept, np.repeat(ahead[:1], self.late_intervals), ahead])[-len(counts) :]
        expected = np.concatenate([np.zeros(len(counts) - len(expected), np.float32), expected])
        flagged = spectral.robust_z(counts, expected, spread[:1], spectral.COUNT_FLOOR) >= spectral.SURGE_Z
        return start, counts, expected, np.flatnonzero(flagged)

    def _forecast_ahead(self, rows: Ints, start: int, end: int) -> tuple[Floats, Floats]:
        """Return expected counts and spreads of one row (1,) in intervals start ... end - 1 of a day, on the host."""
        interval = self.placement(np.arange(start, end, dtype=np.int32))
        ahead, spread = self.expected_counts(namespace(rows).repeat(rows, len(interval)), interval)
        return to_host(ahead), to_host(spread)

    # --- forecasts ----------------------------------------------------------------------------------------------------

    def _daily_forecasts(self, number: int, row: Ints) -> DailyForecasts:
        """Return the forecasts of a day, after making those that are missing for some rows."""
        day = self._forecasts_for_all_rows(number)
        missing = namespace(row).unique(row[day.row_index[row] < 0])
        if len(missing):
            day.add(missing, *self._forecast(number * self.intervals_per_day, missing))
        return day

    def _forecasts_for_all_rows(self, number: int) -> DailyForecasts:
        """Return the forecasts of a day, with `row_index` extended to all rows."""
        day = self.forecasts.setdefault(number, DailyForecasts.empty(self.intervals_per_day, self.placement))
        xp, more = namespace(day.row_index), len(self.since) - len(day.row_index)
        if more:
            day.row_index = xp.concatenate([day.row_index, xp.full(more, -1, np.int32)])
        return day

    def _forecast(self, start: int, rows: Ints) -> tuple[Floats, Floats]:
        """Forecast the day that begins at interval `start`: rows (R,) -> (R, intervals a day), (R,)."""
        xp, end = namespace(rows), start - self.late_intervals
        expected = xp.full((len(rows), self.intervals_per_day), np.nan, np.float32)
        spread = xp.full(len(rows), np.nan, np.float32)
        window = self._window_lengths(end - self.since[rows])
        for width in _unique_values(window[window > 0]):
            same, chunk = xp.flatnonzero(window == width), self._rows_per_chunk(width)
            for at in range(0, len(same), chunk):
                part = same[at : at + chunk]
                expected[part], spread[part] = self._forecast_dense(rows[part], end, width)
        return expected, spread

    def _rows_per_chunk(self, width: int) -> int:
        """Return how many rows are made dense together: as many as fit a cache, or DEVICE_BYTES on a device.

        A device needs the bytes of a forecast for each value, and 4 for the count itself.
        """
        if arrays.is_on_host(self.owner):
            return ROWS_PER_CHUNK
        return max(ROWS_PER_CHUNK, DEVICE_BYTES // (width * (spectral.DEVICE_BYTES_PER_VALUE + 4)))

    def _forecast_dense(self, rows: Ints, end: int, width: int) -> tuple[Floats, Floats]:
        dense = self.dense_counts(rows, end - width, end)
        xp = namespace(dense)
        expected = xp.zeros((len(rows), self.intervals_per_day), np.float32)
        spread = xp.zeros(len(rows), np.float32)
        active = xp.flatnonzero(dense.any(axis=1))  # a row without counts expects none
        if len(active):
            usual = spectral.clip_surges(dense[active], self.intervals_per_day)
            ahead, spread[active] = spectral.forecast(
                usual, self.intervals_per_day, spectral.POWER_QUANTILE, self.late_intervals
            )
            habit = spectral.recent_habit(usual, self.intervals_per_day, self.late_intervals)
            expected[active] = xp.maximum(ahead, habit)
        return expected, spread

    def _window_lengths(self, known: Ints) -> Ints:
        """Return how many of the known intervals (N,) forecasts use."""
        limits = self.options.history_days, self.options.warm_up_days
        used: Ints = spectral.window_lengths(known, self.intervals_per_day, *limits)
        return used

    def dense_counts(self, rows: Ints, start: int, end: int) -> Floats:
        """Return the counts of rows over intervals start ... end - 1: (R, end - start)."""
        xp = namespace(rows)
        out: Floats = xp.zeros((len(rows), end - start), np.float32)
        for table in (self.past, self.open):
            which, cells, columns = table.between(_cell_key(rows, start), _cell_key(rows, end - 1))
            out[which, _split_cells(cells)[1] - start] += columns["count"]
        return out

    # --- checkpoint ---------------------------------------------------------------------------------------------------

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Return rows, cells and the forecasts of open days as plain arrays by name, on the host.

        Forecasts are included because they cannot be repeated: late records may have changed the counts that they were made from.
        """
        out = self._rows_as_arrays(slice(None))
        for name in ("past", "open"):
            out |= {f"{name}.{column}": to_host(array) for column, array in getattr(self, name).items()}
        return out | self._days_as_arrays(slice(None))

    def _arrays_of(self, rows: Ints) -> dict[str, NDArray[Any]]:
        """Return the arrays of `as_arrays` for some rows (R,) alone, numbered from 0; `rows` lie on the device of the series."""
        out = self._rows_as_arrays(rows)
        for name in ("past", "open"):
            ends = (_cell_key(rows, interval) for interval in (0, np.iinfo(np.int32).max))
            which, cells, columns = getattr(self, name).between(*ends)
            keys = to_host(_cell_key(which, _split_cells(cells)[1]))
            order = np.argsort(keys)
            out |= {f"{name}.key": keys[order], f"{name}.count": to_host(columns["count"])[order]}
        return out | self._days_as_arrays(rows)

    def _rows_as_arrays(self, rows: Ints | slice) -> dict[str, NDArray[Any]]:
        return {name: to_host(getattr(self, name)[rows]) for name in ("owner", "channel", "since")}

    def _days_as_arrays(self, rows: Ints | slice) -> dict[str, NDArray[Any]]:
        numbers = sorted(self.forecasts)
        known = [self._forecasts_for_all_rows(number).of_rows(rows) for number in numbers]
        days = [DailyForecasts.empty(self.intervals_per_day).of_rows(slice(None)), *known]
        row, expected, spread = (np.concatenate(parts) for parts in zip(*days, strict=True))
        return {
            "days.number": np.repeat(np.array(numbers, np.int32), [len(places) for places, _, _ in known]),
            "days.row": row,
            "days.expected": expected,
            "days.spread": spread,
        }

    @classmethod
    def from_arrays(
        cls,
        options: settings.Spectral,
        saved: Mapping[str, NDArray[Any]],
        placement: Placement = identity_placement,
    ) -> ActivitySeries:
        """Return the series with the arrays that `as_arrays` returned."""
        series = cls(options, placement)
        if "owner" in saved:
            series.merge(saved)
        return series

    def replace_with(self, other: ActivitySeries) -> None:
        """Take over the content of other series, so that all objects that hold these see it."""
        for each in fields(self):
            setattr(self, each.name, getattr(other, each.name))

    def merge(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Add rows in the form of `as_arrays`, numbered after the present ones. No row may be present already."""
        xp, before = namespace(self.owner), len(self.owner)
        keys = hashing.combine(saved["owner"], saved["channel"])
        self.rows.add(keys, row=before + np.arange(len(keys)))
        self.owner, self.channel, self.since = (
            xp.concatenate([getattr(self, name), self.placement(saved[name])])
            for name in ("owner", "channel", "since")
        )
        for name in ("past", "open"):
            cells = saved[f"{name}.key"] + (np.int64(before) << 32)
            getattr(self, name).merge(cells, count=saved[f"{name}.count"])
        for number in np.unique(saved["days.number"]):
            which = saved["days.number"] == number
            forecasts = saved["days.row"] + np.int32(before), saved["days.expected"], saved["days.spread"]
            self._forecasts_for_all_rows(int(number)).add(
                *(self.placement(each[which]) for each in forecasts)
            )

    # --- expiry -------------------------------------------------------------------------------------------------------

    def close_days(self, interval: int) -> None:
        """Move days that ended before `interval` minus the lateness into the past; drop cells and forecasts out of use."""
        today = (interval - self.late_intervals) // self.intervals_per_day
        keys, columns = self.open.compact()
        over = _split_cells(keys)[1] < today * self.intervals_per_day
        if over.any():
            self.past.add(keys[over], count=columns["count"][over])
            self.open.retain(~over)
        self.forecasts = {number: day for number, day in self.forecasts.items() if number >= today - 1}
        horizon = (today - self.options.history_days - 2) * self.intervals_per_day
        keys, _ = self.past.compact()
        kept = _split_cells(keys)[1] >= horizon
        if not kept.all():
            self.past.retain(kept)

    def expire_rows(self, before: int) -> None:
        """Drop rows whose counts all lie before `before` and within a day of their principal's beginning, and empty rows.

        If such a principal comes again, its rows begin without counts, from the interval in which it was first seen.
        """
        xp, latest = namespace(self.since), self.last_active()
        kept = (latest >= before) | (latest - self.since >= self.intervals_per_day)
        if kept.all():
            return
        number = xp.cumsum(kept) - 1
        keys, columns = self.rows.compact()
        row = columns["row"]
        self.rows.old = (keys[kept[row]], {"row": number[row[kept[row]]].astype(np.int32)})
        for table in (self.past, self.open):
            cells, counts = table.compact()
            cell_kept = kept[cells >> 32]
            cells = cells[cell_kept]
            table.old = (
                number[cells >> 32] << 32 | cells & 0xFFFFFFFF,
                {"count": counts["count"][cell_kept]},
            )
        self.owner, self.channel, self.since = self.owner[kept], self.channel[kept], self.since[kept]
        for day in self.forecasts.values():
            day.row_index = day.row_index[kept[: len(day.row_index)]]

    def open_cells(self, start: int, end: int) -> tuple[Ints, Ints]:
        """Return the non-empty cells of open intervals start ... end - 1: rows and intervals."""
        row, interval = _split_cells(self.open.compact()[0])
        here = (interval >= start) & (interval < end)
        return row[here], interval[here]

    def silent_intervals(self, channel: np.uint64, start: int, end: int) -> tuple[Ints, Ints, Floats]:
        """Return intervals start ... end - 1 with far fewer events than expected: rows, intervals and z (above 0) of each.

        Only rows of `channel` that were busy in the two days before an interval can be silent. Where fewer than SURGE_Z squared
        events are expected, even none is not significant (the Poisson root); and a pause of two days is no silence.
        """
        rows = self.busy_rows(channel, start)
        grids = namespace(rows).meshgrid(rows, self.placement(np.arange(start, end)))
        row, interval = (grid.ravel().astype(np.int32) for grid in grids)
        lack = -self.z_scores(row, interval)
        silent = lack >= spectral.SURGE_Z
        row, interval, lack = row[silent], interval[silent], lack[silent]
        busy = self._was_busy(row, interval, start, end)
        return row[busy], interval[busy], lack[busy]

    def _was_busy(self, row: Ints, interval: Ints, start: int, end: int) -> NDArray[np.bool_]:
        """Return whether the row of each cell (N,), in intervals start ... end - 1, has enough counts in the two days before it.

        Each cell has two days of its own, so that answers do not depend on how many intervals are closed together.
        """
        of_row, rows = arrays.unique_inverse(row)
        days = BUSY_DAYS * self.intervals_per_day
        counted = self.dense_counts(rows, start - days - 1, end).cumsum(axis=1, dtype=np.float64)
        before = interval - start + days  # the column of the interval just before
        busy: NDArray[np.bool_] = counted[of_row, before] - counted[of_row, before - days] >= BUSY_COUNT
        return busy

    def last_active(self) -> Ints:
        """Return the last interval with a count in each row, -1 for none: (R,)."""
        xp = namespace(self.owner)
        out: Ints = xp.full(len(self.owner), -1, np.int32)
        for table in (self.past, self.open):
            row, interval = _split_cells(table.compact()[0])  # sorted: the last cell of a row is its latest
            ends = xp.flatnonzero(xp.diff(row, append=-1))
            out[row[ends]] = xp.maximum(out[row[ends]], interval[ends])
        return out

    def busy_rows(self, channel: np.uint64, start: int) -> Ints:
        """Return the rows of a channel that can have silent intervals from interval `start` on."""
        xp = namespace(self.since)
        counted = xp.zeros(len(self.since), np.float32)
        for table in (self.past, self.open):
            keys, columns = table.compact()
            row, interval = _split_cells(keys)
            recent = interval >= start - BUSY_DAYS * self.intervals_per_day
            xp.add.at(counted, row[recent], columns["count"][recent].astype(np.float32))
        rows = xp.flatnonzero((counted >= BUSY_COUNT) & (self.channel == channel))
        return rows.astype(np.int32)


def _cell_key(row: Ints, interval: Ints | int) -> NDArray[np.int64]:
    return row.astype(np.int64) << 32 | interval


def _unique_values(values: Ints) -> list[int]:
    """Return the distinct values as a list on the host, to loop over."""
    found: list[int] = to_host(namespace(values).unique(values)).tolist()
    return found


def _split_cells(cells: NDArray[np.int64]) -> tuple[Ints, Ints]:
    return (cells >> 32).astype(np.int32), (cells & 0xFFFFFFFF).astype(np.int32)
