"""Load: how much busier than usual a principal is in everything that it does -> a log ratio, subtracted from its amounts.

Example:
    >>> usual = UsualLoad.from_arrays(usual_load(principal, day, action, calls))      # by (principal, action), of a history
    >>> usual.log_ratio(principal, interval, calls_of_day)                            # (N,): 1.4 is four times the usual
    array([1.4, 0. ], dtype=float32)

A sale, a load test or an incident makes a workload do everything more often: four times as many orders are four times as many
reads, messages and keys. None of these amounts is news beside the others. A thief who reads four times as much does not also
write four times as much.

Of each of the `USUAL_ACTIONS` actions that a principal calls on most days, take the log ratio of the calls of a day to the usual
calls a day (the root mean square over the days on which it called the action). The load is the third largest (`BUSY_ACTIONS`) of
these log ratios, and at least 0. It is 0 for principals with fewer than `BUSY_ACTIONS` actions: amounts are there to find one or
two actions that rise.

The day ends before the interval that is judged, and before all intervals that late records may still change. So a burst of an
hour never excuses itself, the load does not change while an interval fills, and it does not depend on how batches are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import (
    Arrays,
    Floats,
    Ints,
    Placement,
    identity_placement,
    namespace,
    unique_examples,
)
from fingerprint.compute.hashing import Hashes
from fingerprint.estimators.amounts import PRIOR_CALLS_A_DAY, PRIOR_WINDOWS

USUAL_ACTIONS = 5  # actions of a principal that it calls on most days ...
BUSY_ACTIONS = 3  # ... and how many of them are at least as busy as its load says
LEAST_CALLS = 0.5  # calls that stand for none in a logarithm

CallsOfDay = Callable[[Hashes, Ints, Hashes], Ints]


def usual_load(principal: Hashes, day: Ints, action: Hashes, calls: Floats) -> Arrays:
    """Return the usual actions of each principal, from rows (N,) that stand for `calls` (N,) each.

    Returns `key` (P,), the principals with BUSY_ACTIONS actions or more, sorted; their actions `action` (P, USUAL_ACTIONS); and
    `log_usual` (P, USUAL_ACTIONS), the log of the usual calls a day, infinite where a principal has fewer actions.
    """
    some = np.flatnonzero(calls > 0)
    example, days, squares = _daily_squares(principal[some], day[some], action[some], calls[some])
    owner, called = principal[some[example]], action[some[example]]
    order = np.lexsort((called, -squares, -days, owner))
    key, first, count = np.unique(owner[order], return_index=True, return_counts=True)
    enough = count >= BUSY_ACTIONS
    first, last = first[enough, None], (first + count)[enough, None] - 1
    place = first + np.arange(USUAL_ACTIONS)
    at = order[np.minimum(place, last)]
    mean = (squares + PRIOR_WINDOWS * PRIOR_CALLS_A_DAY**2) / (days + PRIOR_WINDOWS)
    log_usual = np.where(place <= last, np.log(mean)[at] / 2, np.inf).astype(np.float32)
    return {"key": key[enough], "action": called[at], "log_usual": log_usual}


def _daily_squares(
    principal: Hashes, day: Ints, action: Hashes, calls: Floats
) -> tuple[NDArray[np.intp], NDArray[Any], NDArray[Any]]:
    """Return for each principal and action one of its rows, its active days, and the sum of the squared calls of a day: (U,)."""
    pair = hashing.combine(principal, action)
    of_day, example = unique_examples(hashing.hash_pair(pair, day.astype(np.uint64)))
    squares = np.bincount(of_day, calls, len(example)) ** 2
    _, first, of_pair = np.unique(pair[example], return_index=True, return_inverse=True)
    return example[first], np.bincount(of_pair), np.bincount(of_pair, squares)


@dataclass(frozen=True)
class UsualLoad:
    """The usual actions of principals, as `usual_load` returns them, where they are placed."""

    key: Hashes
    action: Hashes
    log_usual: Floats

    @classmethod
    def from_arrays(cls, arrays: Arrays, placement: Placement = identity_placement) -> UsualLoad:
        """Return the usual load with arrays `key`, `action` and `log_usual`, on the device of `placement`."""
        return cls(**{name: placement(np.asarray(each)) for name, each in arrays.items()})

    @classmethod
    def from_bank(cls, arrays: Mapping[str, NDArray[Any]], placement: Placement) -> UsualLoad:
        """Return the usual load of a bank, from its arrays by name (`load.*`); without them no principal has one."""
        none = np.empty(0, np.uint64)
        nothing = usual_load(none, np.empty(0, np.int32), none, np.empty(0, np.float32))
        return cls.from_arrays(mapped_arrays.part_arrays("load", arrays) or nothing, placement)

    def log_ratio(self, principal: Hashes, interval: Ints, calls_of_day: CallsOfDay) -> Floats:
        """Return the load of principals (N,) in intervals (N,), 0 or more.

        `calls_of_day` takes principals, intervals and actions (M,), and returns the calls (M,) of the day that load is taken from
        (see the module).
        """
        xp = namespace(principal)
        load: Floats = xp.zeros(len(principal), np.float32)
        if not len(self.key):
            return load
        at = xp.minimum(xp.searchsorted(self.key, principal), len(self.key) - 1)
        rows = (self.key[at] == principal).nonzero()[0]
        of_row, some = unique_examples(hashing.combine(principal[rows], interval[rows].astype(np.uint64)))
        load[rows] = self._of_distinct(
            principal[rows[some]], interval[rows[some]], at[rows[some]], calls_of_day
        )[of_row]
        return load

    def _of_distinct(self, principal: Hashes, interval: Ints, at: Any, calls_of_day: CallsOfDay) -> Floats:
        """Return the load of principals (M,) in intervals (M,); `at` (M,) are the rows of the principals in `key`."""
        xp, action = namespace(principal), self.action[at]
        owner, when = (xp.repeat(column, USUAL_ACTIONS) for column in (principal, interval))
        calls = calls_of_day(owner, when, action.ravel()).reshape(action.shape)
        ratio = xp.log(xp.maximum(calls, LEAST_CALLS)).astype(np.float32) - self.log_usual[at]
        busy: Floats = xp.maximum(xp.sort(ratio, axis=1)[:, -BUSY_ACTIONS], 0)
        return busy
