"""Unknown principals: limits on their judged events a day, because an attacker can invent any number of principals.

Example:
    >>> table = SortedTable.empty(day=np.int32, events=np.int32)
    >>> admit(table, principal, day, rooms, 1000)        # (N,) whether each event is judged; the table counts those

A principal that the bank does not know has a room of EVENTS_PER_ROOM events a day, and a day has a room of `max_principals` such
principals. An attacker could fill these with everyday reads, or with failed calls of a thousand invented names, so that later
events are not judged. So calls that can do harm may use further rooms of both kinds: grave ones a second, severe ones a third.
Events are taken in the order in which they come, so batches may be cut anywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Ints, occurrence_index
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable

EVENTS_PER_ROOM = 500  # events of one principal a day
ROOMS = 3  # most rooms that an event may use
Rows = NDArray[np.intp]


def admit(
    table: SortedTable, principal: Hashes, day: Ints, rooms: Ints, max_principals: int
) -> NDArray[np.bool_]:
    """Return whether each event of an unknown principal (N,) is admitted, and count those that are.

    `rooms` (N,), 1 to ROOMS, is the number of rooms that an event may use. `table` has a row for each principal and day, with
    `day` and `events`. A principal is admitted by its first event for which fewer than `rooms * max_principals` principals of the
    day were admitted. From there on, its events are admitted while it has fewer than `rooms * EVENTS_PER_ROOM`.
    """
    names = hashing.combine(principal, day.astype(np.uint64))
    distinct, example, which = np.unique(names, return_index=True, return_inverse=True)
    known = table.has(distinct)
    entry = _entries(table, known, which, day[example], rooms, max_principals)
    inside = np.flatnonzero(np.arange(len(names)) >= entry[which])
    before: Ints = table.get(distinct, "events", missing=0)
    admitted = np.zeros(len(names), bool)
    admitted[inside] = _find_room(which[inside], rooms[inside], before)
    events = np.bincount(which[admitted], minlength=len(distinct))
    new, counted = ~known & (entry < len(names)), known & (events > 0)
    table.add(distinct[new], day=day[example[new]], events=events[new])
    table.add(distinct[counted], day=np.zeros(int(counted.sum()), np.int32), events=events[counted])
    return admitted


def _entries(
    table: SortedTable, known: NDArray[np.bool_], which: Rows, day: Ints, rooms: Ints, max_principals: int
) -> Rows:
    """Return the first event that admits each principal of a day (P,): 0 if it was admitted before, N if no event does.

    `which` (N,) is the principal of each event.
    """
    never = len(which)
    entry = np.where(known, 0, never)
    days, of_day = np.unique(day, return_inverse=True)
    kept = np.sort(table.compact()[1]["day"])
    there = np.searchsorted(kept, days, side="right") - np.searchsorted(kept, days)
    for room in range(1, ROOMS + 1):
        at = np.flatnonzero((rooms >= room) & (entry[which] == never))
        comers, first = np.unique(which[at], return_index=True)
        order = np.argsort(first)
        comers, first = comers[order], at[first[order]]
        place = there[of_day[comers]] + occurrence_index(of_day[comers])
        has_room = place < room * max_principals
        entry[comers[has_room]] = first[has_room]
        there = there + np.bincount(of_day[comers[has_room]], minlength=len(days))
    return entry


def _find_room(which: Rows, rooms: Ints, before: Ints) -> NDArray[np.bool_]:
    """Return whether each event (N,) finds room; `which` (N,) is its principal, `before` (P,) the events that principals had."""
    admitted = np.zeros(len(which), bool)
    for room in range(1, ROOMS + 1):
        at = np.flatnonzero((rooms >= room) & ~admitted)
        used = before + np.bincount(which[admitted], minlength=len(before))
        admitted[at] = used[which[at]] + occurrence_index(which[at]) < room * EVENTS_PER_ROOM
    return admitted
