"""Unknown principals: limits on their judged events a day, because an attacker can invent any number of principals.

Example:
    >>> table = SortedTable.empty(day=np.int32, events=np.int32)
    >>> admit(table, principal, day, quotas, 1000)       # (N,) whether each event is judged; the table counts those

A principal that the bank does not know has a quota of EVENTS_PER_QUOTA events a day, and a day has a quota of
`max_principals` such principals. An attacker could use these up with everyday reads, or with failed calls of a thousand
invented names, so that later events are not judged. So calls that can do harm have further quotas of both kinds: grave ones a
second, severe ones a third.
Events are taken in the order in which they come, so batches may be cut anywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Ints, occurrence_index
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable

EVENTS_PER_QUOTA = 500  # events of one principal a day
MAX_QUOTAS = 3  # most quotas of each kind that an event has
Rows = NDArray[np.intp]


def admit(
    table: SortedTable, principal: Hashes, day: Ints, quotas: Ints, max_principals: int
) -> NDArray[np.bool_]:
    """Return whether each event of an unknown principal (N,) is admitted, and count those that are.

    `quotas` (N,), 1 to MAX_QUOTAS, is the number of quotas that an event has. `table` has a row for each principal and day, with
    `day` and `events`. A principal is admitted by its first event for which fewer than `quotas * max_principals` principals of
    the day were admitted. From there on, its events are admitted while it has fewer than `quotas * EVENTS_PER_QUOTA`.
    """
    names = hashing.combine(principal, day.astype(np.uint64))
    distinct, example, which = np.unique(names, return_index=True, return_inverse=True)
    known = table.has(distinct)
    entry = _entries(table, known, which, day[example], quotas, max_principals)
    inside = np.flatnonzero(np.arange(len(names)) >= entry[which])
    before: Ints = table.get(distinct, "events", missing=0)
    admitted = np.zeros(len(names), bool)
    admitted[inside] = _is_within_quotas(which[inside], quotas[inside], before)
    events = np.bincount(which[admitted], minlength=len(distinct))
    new, counted = ~known & (entry < len(names)), known & (events > 0)
    table.add(distinct[new], day=day[example[new]], events=events[new])
    table.add(distinct[counted], day=np.zeros(int(counted.sum()), np.int32), events=events[counted])
    return admitted


def _entries(
    table: SortedTable, known: NDArray[np.bool_], which: Rows, day: Ints, quotas: Ints, max_principals: int
) -> Rows:
    """Return the first event that admits each principal of a day (P,): 0 if it was admitted before, N if no event does.

    `which` (N,) is the principal of each event.
    """
    never = len(which)
    entry = np.where(known, 0, never)
    days, of_day = np.unique(day, return_inverse=True)
    kept = np.sort(table.compact()[1]["day"])
    there = np.searchsorted(kept, days, side="right") - np.searchsorted(kept, days)
    for quota in range(1, MAX_QUOTAS + 1):
        at = np.flatnonzero((quotas >= quota) & (entry[which] == never))
        comers, first = np.unique(which[at], return_index=True)
        order = np.argsort(first)
        comers, first = comers[order], at[first[order]]
        place = there[of_day[comers]] + occurrence_index(of_day[comers])
        is_within = place < quota * max_principals
        entry[comers[is_within]] = first[is_within]
        there = there + np.bincount(of_day[comers[is_within]], minlength=len(days))
    return entry


def _is_within_quotas(which: Rows, quotas: Ints, before: Ints) -> NDArray[np.bool_]:
    """Return whether each event (N,) is within its quotas; `which` (N,) is its principal, `before` (P,) the events it had."""
    admitted = np.zeros(len(which), bool)
    for quota in range(1, MAX_QUOTAS + 1):
        at = np.flatnonzero((quotas >= quota) & ~admitted)
        used = before + np.bincount(which[admitted], minlength=len(before))
        admitted[at] = used[which[at]] + occurrence_index(which[at]) < quota * EVENTS_PER_QUOTA
    return admitted
