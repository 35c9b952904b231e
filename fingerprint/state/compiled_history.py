"""The history that is visible to principals, compiled for the host.

Example:
    >>> history = VisibleHistory.empty(slot, interval, latest)
    >>> for keys, columns in activity.parts:
    ...     add_visible_history(keys, tuple(columns[name] for name in COUNTS), history, rules)
    >>> fill_bins(history, rules)                       # `history.bins`

The result is that of `ScorerState._array_history`, against which tests compare it. Compiled, it needs none of the four dozen
calls that take most of the time for few events.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Longs
from fingerprint.compute.compiled import compile_exact_kernel, find_place

Counts = NDArray[np.int32]

# Columns of the activity table
COUNTS = ("events", "sources", "actions")
_INTERVAL_BITS, _INTERVAL = 32, 0xFFFFFFFF  # a key of the activity is slot << 32 | interval


class HistoryRules(NamedTuple):
    """Intervals a day, intervals that late records may reach back, seconds of an interval; and the greatest bins."""

    per_day: int
    late: int
    seconds: int
    max_sources: int
    max_idle: int


class VisibleHistory(NamedTuple):
    """Visible activity of D principals, by their `slot`, before an `interval`, (D,) each.

    - `sums` (3, D): the sums of COUNTS on the day so far
    - `last` (D,): the interval of the last activity, -1 for none
    - `bins` (4, D): `idle`, `today`, `sources` and `actions` of `ScorerState.update_history`
    """

    slot: NDArray[np.int32]
    interval: NDArray[np.int32]
    sums: Longs
    last: Longs
    bins: NDArray[np.int32]

    @classmethod
    def empty(cls, slot: Any, interval: Any, last: Any) -> Self:
        """Return a history without activity except `last`, the last active interval that each principal's row keeps."""
        sums = np.zeros((len(COUNTS), len(slot)), np.int64)
        return cls(slot, interval, sums, last.astype(np.int64), np.empty((4, len(slot)), np.int32))


@compile_exact_kernel
def add_visible_history(
    keys: Longs, counts: tuple[Counts, ...], history: VisibleHistory, rules: HistoryRules
) -> None:
    """Add the visible activity of one part of the table (intervals no late record can change); `counts` are its COUNTS."""
    for row in range(len(history.slot)):
        slot, interval = np.int64(history.slot[row]), np.int64(history.interval[row])
        first = slot << _INTERVAL_BITS | interval // rules.per_day * rules.per_day
        place = find_place(keys, slot << _INTERVAL_BITS | (interval - rules.late)) - 1
        if place >= 0 and keys[place] >> _INTERVAL_BITS == slot:
            history.last[row] = max(history.last[row], keys[place] & _INTERVAL)
        while place >= 0 and keys[place] >= first:
            for number in range(len(counts)):
                history.sums[number, row] += counts[number][place]
            place -= 1


@compile_exact_kernel
def fill_bins(history: VisibleHistory, rules: HistoryRules) -> None:
    """Fill the bins. Logarithms are numbers of bits, because libraries differ in the last bit of a logarithm."""
    idle, today, sources, actions = history.bins
    for row in range(len(history.slot)):
        hours = max(history.interval[row] - history.last[row], 1) * rules.seconds / 3600
        idle[row] = -1 if history.last[row] < 0 else min(math.frexp(max(hours, 1.0))[1] - 1, rules.max_idle)
        today[row] = math.frexp(np.float64(history.sums[0, row]))[1]
        sources[row] = min(history.sums[1, row], rules.max_sources)
        actions[row] = math.frexp(np.float64(history.sums[2, row]))[1]
