"""Activity counts of a partition's rows: its series, the surge of each row, and the beginnings of principals.

Example:
    >>> series, counted = activity_series(context, vocabulary)
    >>> counted.surges(~context.held_out)[context.held_out]    # (L, 9) log surges, NaN for no opinion
    >>> Beginnings.of_rows(context, counted).hours()         # counts of principals in their first days
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import Arrays, Floats, Ints, identity_placement
from fingerprint.compute.hashing import Hashes
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.detection.detectors.spectral import NEWCOMER_PLACES, Bursts, count_events
from fingerprint.estimators import amounts, newcomer_tails, surge_tails
from fingerprint.features.encoding import ACTION_COLUMN
from fingerprint.features.vocabulary import Vocabulary
from fingerprint.state.activity_series import ACTION_CHANNELS
from fingerprint.state.partitioning import LEARNED_TABLES
from fingerprint.state.scorer_state import ScorerState
from fingerprint.training.fingerprint_index import ENTITY
from fingerprint.training.partition_context import PartitionContext


@dataclass(frozen=True)
class CountedRows:
    """The counts of R rows in each channel, in the interval of each row: (R, 9) each, `interval` (R,).

    `key` names the series, 0 where a row was not counted. `expected` and `spread` are the forecast, NaN while a series warms up.
    """

    interval: Ints
    key: NDArray[np.uint64]
    count: Floats
    expected: Floats
    spread: Floats

    @classmethod
    def empty(cls, interval: Ints) -> CountedRows:
        """Return rows that were not counted in any channel."""
        shape = (len(interval), surge_tails.CHANNELS)
        none = (np.full(shape, fill, np.float32) for fill in (0, np.nan, np.nan))
        return cls(interval, np.zeros(shape, np.uint64), *none)

    def bursts(self, which: NDArray[np.bool_]) -> Arrays:
        """Return the usual burst of each series in the intervals of rows `which` (R,): `key` (M,), sorted, and `usual` (M,)."""
        counted = (self.key != 0) & which[:, None] & ~np.isnan(self.expected)
        interval = np.broadcast_to(self.interval[:, None], self.key.shape)[counted]
        key, above = self.key[counted], (self.count - self.expected)[counted]
        cell = hashing.hash_pair(key, interval.astype(np.uint64))
        first = np.unique(cell, return_index=True)[1]
        found = amounts.usual_amounts(key[first], np.maximum(above[first], 0).astype(np.float64))
        return {name: found[name] for name in ("key", "usual")}

    def surges(self, usual: NDArray[np.bool_]) -> Floats:
        """Return the log surge of each row and channel (R, 9), NaN for no opinion, by the bursts of the rows `usual` (R,)."""
        known = Bursts.from_arrays(
            {f"burst.{name}": column for name, column in self.bursts(usual).items()}, identity_placement
        )
        burst = known.usual(self.key.ravel()).reshape(self.key.shape)
        return surge_tails.log_surge(self.count, self.expected, self.spread, burst)


@dataclass(frozen=True)
class Beginnings:
    """Activity of principals in the active intervals of their first days, before they have a forecast.

    `principal` (H,) and `count` (H, 3) are of each such interval, in the channels of `newcomer_tails`. `of_row` (R,) is the
    interval's place for each row, -1 for none.
    """

    principal: Hashes
    count: Floats
    of_row: NDArray[np.intp]

    @classmethod
    def of_rows(cls, context: PartitionContext, counted: CountedRows) -> Beginnings:
        """Return the beginnings in a partition, from the counts of its rows; only rows that failed carry the error count."""
        rows, series = context.rows, ScorerState(context.settings).series
        fresh = np.flatnonzero(
            ~series.is_warm(rows.since, rows.interval) & (counted.key[:, NEWCOMER_PLACES.start] != 0)
        )
        cell = hashing.hash_pair(rows.principal[fresh], rows.interval[fresh].astype(np.uint64))
        _, first, of_cell = np.unique(cell, return_index=True, return_inverse=True)
        count = np.zeros((len(first), newcomer_tails.CHANNELS), np.float32)
        np.maximum.at(count, of_cell, counted.count[fresh][:, NEWCOMER_PLACES])
        of_row = np.full(len(rows), -1, np.intp)
        of_row[fresh] = of_cell
        return cls(rows.principal[fresh[first]], count, of_row)

    def hours(self) -> Arrays:
        """Return principal and counts of each interval, from which the tails are fitted."""
        return {"principal": self.principal, "count": self.count}

    def rows_at(self, places: NDArray[np.intp]) -> Arrays:
        """Return the counts of the interval of some rows (L,): `beginning` (L, 3), NaN after the first days."""
        none = np.full((1, newcomer_tails.CHANNELS), np.nan, np.float32)
        return {"beginning": np.concatenate([self.count, none])[self.of_row[places]]}


def activity_series(context: PartitionContext, known: Vocabulary) -> tuple[Arrays, CountedRows]:
    """Return the series at the end of the history, and the counts and forecasts of each row."""
    state, rows = _scorer_state(context), context.rows
    slot = known.look_up(context.owners[:, ENTITY], rows.codes)[1][:, ACTION_COLUMN]
    # A fingerprint that is not ready has no channels of single actions in scoring, either.
    ready = context.index.ready[context.owners[:, ENTITY]]
    busy = (slot > 0) & (slot <= ACTION_CHANNELS) & ready
    days, counted = rows.interval // state.series.intervals_per_day, CountedRows.empty(rows.interval)
    for day in np.unique(
        days[days < _history_end(context)]
    ):  # a record dated far ahead must not end a series
        part = np.flatnonzero(days == day)
        batch = rows.take(part).to_event_batch()
        cells = count_events(batch, state, np.zeros(len(part), bool), busy[part], rows.events[part])
        flat = state.series.residuals(
            state.series.find_rows(cells.ravel()), np.repeat(batch.interval, cells.shape[1])
        )
        counted.key[part] = cells
        for name, column in zip(("count", "expected", "spread"), flat, strict=True):
            getattr(counted, name)[part] = column.reshape(cells.shape)
        state.series.close_days((int(day) + 1) * state.series.intervals_per_day)
    state.series.close_days(_history_end(context) * state.series.intervals_per_day)
    return state.as_arrays((*LEARNED_TABLES, "series")), counted


def _scorer_state(context: PartitionContext) -> ScorerState:
    """Return the scorer state that `distinct_rows` left, advanced to the end of the whole history."""
    kept = mapped_arrays.open_arrays(
        context.dataset.partition_folder(context.number) / "rows", "scorer_state"
    )
    state = ScorerState.from_arrays(context.settings, kept)
    state.watermark = context.dataset.watermark
    state.expire()
    return state


def _history_end(context: PartitionContext) -> int:
    """Return the day after the last of the whole history."""
    return context.dataset.watermark // DAY_SECONDS + 1
