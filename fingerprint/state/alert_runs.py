"""Runs of intervals with verdicts; a run is the verdicts of a principal that belong to one alert.

Example:
    >>> runs = AlertRuns(gap=3, longest=24)
    >>> runs.assign(principal, interval)                   # (N,), (N,) -> the first interval of each one's run, (N,)
    >>> runs.preview(principal, interval)                  # the same for intervals that are still open; keeps nothing

A run is a sequence of a principal's intervals with a verdict, each at most `gap` after the one before. It spans at most `longest`
intervals, and its first interval is its name. Verdicts are final when their interval closes, and intervals close in order. So the
first interval of a run is known before an alert is made of it, whatever the order of arrival within the allowed lateness and
however batches are cut.

Only the latest run of each principal is kept. A verdict on a record that came later than allowed joins this run if it lies at
most `gap` before it, and the run keeps its name. Otherwise its interval is a run by itself.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Ints, is_first_occurrence
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable

NONE = np.iinfo(np.int32).min  # in place of the first interval, where there is no run


def empty_runs() -> SortedTable:
    """Return an empty table of the latest run of each principal; it lies on the host, because few principals have one."""
    return SortedTable.empty(keep_first=True, first=np.int32, last=np.int32)


class AlertRuns:
    """The latest run of each principal, in a table that belongs to the scorer's state."""

    def __init__(self, gap: int, longest: int, table: SortedTable | None = None) -> None:
        """`gap` and `longest` are numbers of intervals, at least one."""
        self.gap, self.longest = gap, longest
        self.table = empty_runs() if table is None else table

    def assign(self, principal: Hashes, interval: Ints) -> Ints:
        """Return the first interval of the run that each verdict (N,) belongs to, and keep the latest run of each principal."""
        names, first, last, of_each = self._follow(principal, interval)
        new = ~self.table.has(names)
        self.table.add(names[new], first=first[new], last=last[new])
        self.table.overwrite(names[~new], "first", first[~new])
        self.table.overwrite(names[~new], "last", last[~new])
        return of_each

    def preview(self, principal: Hashes, interval: Ints) -> Ints:
        """Return what `assign` would return, given the current verdicts of open intervals."""
        return self._follow(principal, interval)[3]

    def is_over(self, principal: Hashes, first: Ints, first_open: int) -> NDArray[np.bool_]:
        """Return whether each run (N,), by principal and first interval, is closed to verdicts of `first_open` and later."""
        latest = self.table.get(principal, "first", missing=NONE) == first
        last = self.table.get(principal, "last", missing=NONE)
        over: NDArray[np.bool_] = (
            ~latest | (first_open - last.astype(np.int64) > self.gap) | (first_open - first >= self.longest)
        )
        return over

    def _follow(self, principal: Hashes, interval: Ints) -> tuple[Hashes, Ints, Ints, Ints]:
        """Return the principals (P,), the first and last interval of their latest runs, and the run of each verdict (N,)."""
        order = np.lexsort((interval, principal))
        changes = np.ones(len(order), bool)
        changes[1:] = (np.diff(principal[order]) != 0) | (np.diff(interval[order]) != 0)
        place = np.empty(len(order), np.intp)
        place[order] = np.cumsum(changes) - 1
        owner, at = principal[order][changes], interval[order][changes].tolist()
        names, starts = np.unique(owner, return_index=True)
        first, last = (self.table.get(names, name, missing=NONE) for name in ("first", "last"))
        found = np.empty(len(at), np.int32)
        for row, (start, end) in enumerate(pairwise([*starts.tolist(), len(at)])):
            run = int(first[row]), int(last[row])
            for index in range(start, end):
                found[index], run = self._next(run, at[index])
            first[row], last[row] = run
        return names, first, last, found[place]

    def _next(self, run: tuple[int, int], interval: int) -> tuple[int, tuple[int, int]]:
        """Return the first interval of the run that an interval belongs to, and the latest run after it."""
        first, last = run
        if first == NONE:
            return interval, (interval, interval)
        if interval < first:  # of a record that came too late
            return (first if first - interval <= self.gap else interval), run
        if interval - last <= self.gap and interval - first < self.longest:
            return first, (first, max(last, interval))
        return interval, (interval, interval)


def alert_peaks(principal: Hashes, interval: Ints, z: NDArray[Any], gap: int, most: int) -> NDArray[np.intp]:
    """Return the events that open a new alert as a threshold on z is lowered, highest z first: (A,) indices, at most `most`.

    The number of peaks at or above a threshold is the number of its alerts, or slightly more: two runs that a lower threshold
    joins stay two peaks. The largest length of a run is ignored.
    """
    order = np.lexsort((interval, principal, -z))
    order = order[is_first_occurrence(hashing.hash_pair(principal, interval.astype(np.uint64))[order])]
    shown: dict[int, list[int]] = defaultdict(list)
    peaks = []
    for place, owner, at in zip(
        order.tolist(), principal[order].tolist(), interval[order].tolist(), strict=True
    ):
        near = shown[owner]
        index = bisect_left(near, at - gap)
        if index == len(near) or near[index] > at + gap:
            peaks.append(place)
            if len(peaks) == most:
                break
        insort(near, at)
    return np.array(peaks, np.intp)
