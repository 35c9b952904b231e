"""Count the events of each feed by interval in one partition, so that feed gaps can be found.

Example:
    >>> counts = FeedCounts(interval_seconds=3600, max_feeds=10_000)
    >>> counts.add_events(events, ["cloudtrail/3"], codes, closed)     # codes (N,): which source each event came through
    >>> counts.drain_closed(closed_until=491_820)                      # complete counts, and those that grew late
         kind                    feed  interval  events
    0 account            123456789012    491819      31
    1  region  123456789012/eu-west-1    491819      12
    2  source            cloudtrail/3    491819      31

A *feed* is an account, a region of an account, or a source: the raw partition or the queue that messages come through. The events
of an account lie in all partitions (those of a principal in one), so only the alert store can add up the counts of a feed. All
events are counted, including repeats and those that the bank was trained on, because they show that the feed is alive.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import arrays, frames
from fingerprint.compute.arrays import Array
from fingerprint.compute.frames import Frame
from fingerprint.core.sanitize import printable, storable
from fingerprint.core.time_range import DAY_SECONDS

MAX_FEEDS = 10_000  # feeds that are counted: the busiest
ACCOUNT, REGION, SOURCE = "account", "region", "source"
KEY_COLUMNS = ["kind", "feed", "interval"]
MAX_NEW_CELLS = 100_000  # new cells after which the number of feeds is limited again
MAX_FEED_DAYS = 35  # most days of intervals of one feed: more than topics keep, so than a source can be ahead
MAX_NAME_LENGTH = 200  # characters of a source's name that are kept

_ACCOUNT = re.compile(r"[0-9]{12}")  # as AWS numbers them: anything else in a record is no feed
_REGION = re.compile(r"[a-z]{2,4}(?:-[a-z]{2,12}){1,4}-[0-9]{1,2}")

Cell = tuple[str, str, int]  # kind, feed, interval


class FeedCounts:
    """Counts of events by (feed, interval) of one partition, kept until a day after the interval closed, for late events.

    Events that come later are never counted, so counts do not depend on how batches are cut.
    """

    def __init__(self, interval_seconds: int, max_feeds: int) -> None:
        self.interval_seconds, self.max_feeds = interval_seconds, max_feeds
        self.intervals_per_day = DAY_SECONDS // interval_seconds
        self.closed_until = 0  # intervals below this one were drained
        self.dropped_feeds = 0  # feeds that were not counted, because there were too many
        self._cells: dict[Cell, int] = {}
        self._fresh: set[Cell] = set()  # cells that grew since they were drained
        self._most_cells = MAX_NEW_CELLS  # above which cells are limited

    def add_events(
        self,
        events: pd.DataFrame,
        sources: Sequence[str],
        codes: NDArray[Any],
        closed_until: NDArray[np.int64],
    ) -> None:
        """Count N events.

        `codes` (N,) is the index in `sources` of the source of each event, `closed_until` (N,) the first open interval at its
        arrival.
        """
        interval = frames.epoch_seconds(frames.column_of(events, "event_time")) // self.interval_seconds
        codes = arrays.to_device_of(codes, interval)
        closed_until = arrays.to_device_of(closed_until, interval)
        counts = arrays.namespace(interval).flatnonzero(interval >= closed_until - self.intervals_per_day)
        if len(counts):
            known = frames.select_rows(frames.select_columns(events, ["recipient_account", "region"]), counts)
            for cell, number in _count_batch(known, interval[counts], sources, codes[counts]):
                self._cells[cell] = self._cells.get(cell, 0) + number
                self._fresh.add(cell)
        if len(self._cells) > self._most_cells:
            self._limit_cells()

    def drain_closed(self, closed_until: int) -> pd.DataFrame | None:
        """Return the counts of intervals below `closed_until` that are new since the last call; None if no interval closed.

        A count that grew late is returned again, as its new total.
        """
        if closed_until <= self.closed_until:
            return None
        self.closed_until = closed_until
        self._limit_cells()
        due = sorted(cell for cell in self._fresh if cell[2] < closed_until)
        drained = self._as_frame(due)
        self._fresh.difference_update(due)
        first = closed_until - self.intervals_per_day
        for cell in [cell for cell in self._cells if cell[2] < first]:
            del self._cells[cell]
        return drained

    def as_table(self) -> pd.DataFrame:
        """Return the counts for a checkpoint, to be saved with `closed_until`."""
        self._limit_cells()
        cells = sorted(self._cells)
        return self._as_frame(cells).assign(fresh=np.array([cell in self._fresh for cell in cells], bool))

    def restore(self, cells: pd.DataFrame, closed_until: int) -> None:
        """Continue from the counts of `as_table`."""
        keys = [*zip(*(cells[name].tolist() for name in KEY_COLUMNS), strict=True)]
        self._cells = dict(zip(keys, cells["events"].tolist(), strict=True))
        self._fresh = {key for key, fresh in zip(keys, cells["fresh"].tolist(), strict=True) if fresh}
        self._most_cells, self.closed_until = len(keys) + MAX_NEW_CELLS, closed_until

    def _as_frame(self, cells: Sequence[Cell]) -> pd.DataFrame:
        kinds, feeds, intervals = zip(*cells, strict=True) if cells else ((), (), ())
        return pd.DataFrame(
            {
                "kind": pd.Series(kinds, dtype=object),
                "feed": pd.Series(feeds, dtype=object),
                "interval": np.array(intervals, np.int64),
                "events": np.array([self._cells[cell] for cell in cells], np.int64),
            }
        )

    def _limit_cells(self) -> None:
        """Keep the busiest feeds and the earliest intervals of each: an attacker can invent any number of accounts and times."""
        self._keep_busiest()
        self._keep_earliest()
        self._fresh &= self._cells.keys()
        self._most_cells = len(self._cells) + MAX_NEW_CELLS

    def _keep_busiest(self) -> None:
        sizes: Counter[tuple[str, str]] = Counter()
        for (kind, feed, _), events in self._cells.items():
            sizes[kind, feed] += events
        if len(sizes) > self.max_feeds:
            self.dropped_feeds += len(sizes) - self.max_feeds
            kept = set(sorted(sizes, key=lambda name: (-sizes[name], name))[: self.max_feeds])
            self._cells = {cell: events for cell, events in self._cells.items() if cell[:2] in kept}

    def _keep_earliest(self) -> None:
        most = MAX_FEED_DAYS * self.intervals_per_day
        if max(Counter(cell[:2] for cell in self._cells).values(), default=0) > most:
            for _, cells in groupby(sorted(self._cells), key=itemgetter(0, 1)):
                for cell in islice(cells, most, None):
                    del self._cells[cell]


def _count_batch(
    events: Frame, interval: Array, sources: Sequence[str], codes: Array
) -> Iterator[tuple[Cell, int]]:
    """Yield each cell of a batch with its number of events; strings are read once for each distinct combination."""
    named = (
        frames.factorize_values(frames.column_of(events, name))[0] for name in ("recipient_account", "region")
    )
    first, counts = _distinct_rows(*named, codes, interval)
    few = frames.to_host(frames.select_rows(events, first))
    accounts, regions = (few[name].astype(object).tolist() for name in ("recipient_account", "region"))
    numbers = (arrays.to_host(each).tolist() for each in (interval[first], codes[first], counts))
    names = [sanitise_source_name(name) for name in sources]
    for account, region, at, code, number in zip(accounts, regions, *numbers, strict=True):
        yield (SOURCE, names[code], at), number
        if isinstance(account, str) and _ACCOUNT.fullmatch(account):
            yield (ACCOUNT, account, at), number
            if isinstance(region, str) and _REGION.fullmatch(region):
                yield (REGION, f"{account}/{region}", at), number


def _distinct_rows(*columns: Array) -> tuple[Array, Array]:
    """Return the distinct rows of columns (N,): the index of one example of each, and how often it occurs."""
    xp = arrays.namespace(columns[0])
    rows = xp.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = arrays.unique_inverse(column)[0]
        rows = arrays.unique_inverse(rows * (int(codes.max()) + 1) + codes)[0]  # below N * N: no overflow
    first = xp.unique(rows, return_index=True)[1]
    return first, xp.bincount(rows)


def sanitise_source_name(name: str) -> str:
    """Return the name of a source in a form that is safe to keep and show: producers to the events topic may write anything."""
    shown: str = storable(printable(name[:MAX_NAME_LENGTH]))
    return shown
