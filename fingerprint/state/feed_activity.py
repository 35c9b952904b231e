"""Count the events of each feed by interval in one partition, so that a feed gap can be noticed.

Example:
    >>> counts = FeedCounts(interval_seconds=3600, max_feeds=10_000)
    >>> counts.add_events(events, ["cloudtrail/3"], codes, closed)     # codes (N,): which source each event came through
    >>> counts.drain_closed(closed_until=491_820)                      # complete counts, and those that grew late
         kind                    feed  interval  events
    0 account            123456789012    491819      31
    1  region  123456789012/eu-west-1    491819      12
    2  source            cloudtrail/3    491819      31

A *feed* is an account, a region of an account, or a source: the raw partition or the queue that messages come through. Events
of one principal lie in one partition and those of an account in all of them, so only the alert store can add a feed up. All
events are counted, also repeats and those that the bank was trained on: they show that the feed is alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import arrays, frames
from fingerprint.compute.arrays import Array
from fingerprint.compute.frames import Frame
from fingerprint.core.sanitize import printable, storable

MAX_FEEDS = 10_000  # feeds that are counted, the busiest
ACCOUNT, REGION, SOURCE = "account", "region", "source"
KEY_COLUMNS = ["kind", "feed", "interval"]
MAX_BUFFERED_ROWS = 100_000  # rows of batches before they are summed
MAX_NAME_LENGTH = 200  # characters of a source's name that are kept

_ACCOUNT = r"[0-9]{12}"  # as AWS numbers them: anything else in a record is no feed
_REGION = r"[a-z]{2}(?:-[a-z]{2,12}){1,4}-[0-9]{1,2}"


class FeedCounts:
    """Events by (feed, interval) of one partition, kept until a day after the interval closed, for late events.

    Events that come later still are not counted: so where a batch is cut does not matter.
    """

    def __init__(self, interval_seconds: int, max_feeds: int) -> None:
        self.interval_seconds, self.max_feeds = interval_seconds, max_feeds
        self.intervals_per_day = 86400 // interval_seconds
        self.closed_until = 0  # intervals below this one were drained
        self.dropped_feeds = 0  # feeds that were not counted, because there were too many
        self._cells = _empty_counts().assign(fresh=pd.Series(dtype=bool))
        self._buffered: list[pd.DataFrame] = []

    def add_events(
        self,
        events: pd.DataFrame,
        sources: Sequence[str],
        codes: NDArray[Any],
        closed_until: NDArray[np.int64],
    ) -> None:
        """Count N events.

        `codes` (N,): which of `sources` each came through; `closed_until` (N,): the first open interval at its arrival.
        """
        interval = frames.epoch_seconds(events["event_time"]) // self.interval_seconds
        codes, closed_until = (
            arrays.to_device_of(codes, interval),
            arrays.to_device_of(closed_until, interval),
        )
        counts = arrays.namespace(interval).flatnonzero(interval >= closed_until - self.intervals_per_day)
        if len(counts):
            known = frames.select_rows(events[["recipient_account", "region"]], counts)
            self._buffered += _count_batch(known, interval[counts], sources, codes[counts])
        if sum(map(len, self._buffered)) > MAX_BUFFERED_ROWS:
            self._consolidate()

    def drain_closed(self, closed_until: int) -> pd.DataFrame | None:
        """Return the counts of intervals below `closed_until` that were not drained yet, None if none has closed since.

        A count that grew late is there again, whole.
        """
        if closed_until <= self.closed_until:
            return None
        self.closed_until = closed_until
        self._consolidate()
        due = self._cells["fresh"] & (self._cells["interval"] < closed_until)
        drained = self._cells.loc[due, [*KEY_COLUMNS, "events"]].reset_index(drop=True)
        self._cells.loc[due, "fresh"] = False
        kept = self._cells["interval"] >= closed_until - self.intervals_per_day
        self._cells = self._cells[kept].reset_index(drop=True)
        return drained

    def as_table(self) -> pd.DataFrame:
        """Return the counts for a checkpoint, to be saved with `closed_until`."""
        self._consolidate()
        return self._cells

    def restore(self, cells: pd.DataFrame, closed_until: int) -> None:
        """Continue from the counts of `as_table`."""
        self._cells, self._buffered, self.closed_until = cells, [], closed_until

    def _consolidate(self) -> None:
        if not self._buffered:
            return
        cells = pd.concat([part for part in (self._cells, *self._buffered) if len(part)], ignore_index=True)
        summed = cells.groupby(KEY_COLUMNS, sort=True).agg(events=("events", "sum"), fresh=("fresh", "any"))
        self._cells, self._buffered = self._keep_busiest(summed.reset_index()), []

    def _keep_busiest(self, cells: pd.DataFrame) -> pd.DataFrame:
        """Keep the busiest feeds: a sender that can make up accounts can make up many."""
        feeds = cells.groupby(["kind", "feed"], sort=True)["events"].transform("sum")
        sizes = cells.assign(all=feeds).drop_duplicates(["kind", "feed"])
        if len(sizes) <= self.max_feeds:
            return cells
        self.dropped_feeds += len(sizes) - self.max_feeds
        kept = sizes.nlargest(self.max_feeds, "all", keep="first")[["kind", "feed"]]
        return cells.merge(kept, on=["kind", "feed"])


def _count_batch(events: Frame, interval: Array, sources: Sequence[str], codes: Array) -> list[pd.DataFrame]:
    """Return a batch as rows of (feed, interval): strings are read once for each distinct combination."""
    named = (frames.factorize_values(events[name])[0] for name in ("recipient_account", "region"))
    first, counts = _distinct_rows(*named, codes, interval)
    few = frames.to_pandas(frames.select_rows(events, first))
    interval, codes, counts = (arrays.to_host(each) for each in (interval[first], codes[first], counts))
    account, region = (few[name].astype(object).fillna("") for name in ("recipient_account", "region"))
    known = account.str.fullmatch(_ACCOUNT).astype(bool)
    placed = known & region.str.fullmatch(_REGION).astype(bool)
    through = [sanitise_source_name(sources[code]) for code in codes.tolist()]
    table = pd.DataFrame({"interval": interval, "events": counts, "fresh": True})
    return [
        table[known].assign(kind=ACCOUNT, feed=account[known]),
        table[placed].assign(kind=REGION, feed=account[placed] + "/" + region[placed]),
        table.assign(kind=SOURCE, feed=pd.Series(through, dtype=object)),
    ]


def _distinct_rows(*columns: Array) -> tuple[Array, Array]:
    """Return the distinct rows of some columns (N,): the index of one of each, and how many there are."""
    xp = arrays.namespace(columns[0])
    rows = xp.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = arrays.unique_inverse(column)[0]
        rows = arrays.unique_inverse(rows * (int(codes.max()) + 1) + codes)[0]  # below N * N: no overflow
    first = xp.unique(rows, return_index=True)[1]
    return first, xp.bincount(rows)


def sanitise_source_name(name: str) -> str:
    """Return a source's name as it is kept and shown; a producer to the events topic may write anything there."""
    shown: str = storable(printable(name[:MAX_NAME_LENGTH]))
    return shown


def _empty_counts() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "kind": pd.Series(dtype=object),
            "feed": pd.Series(dtype=object),
            "interval": pd.Series(dtype=np.int64),
            "events": pd.Series(dtype=np.int64),
        }
    )
