"""Counts of the events of each feed by partition, and the gaps of feeds that fell silent.

Example:
    >>> store.feeds.save_counts(Partition("events", 3), 1_770_000_000, counts)
    >>> store.feeds.complete_until()
    {Partition(topic='events', number=3): 1770000000}
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql

from fingerprint.core.alert import FeedGap
from fingerprint.core.ports.message_stream import Partition
from fingerprint.core.sanitize import storable
from fingerprint.store.database import Locking, Repository, reads, writes
from fingerprint.store.rows import feed_gap_row
from fingerprint.store.schema import (
    Row,
    execute_batches,
    feed_counts,
    feed_gaps,
    feed_progress,
    insert_into,
    meta,
    replace_into,
)

if TYPE_CHECKING:
    import pandas as pd

_CHECKED_UNTIL = "feeds_checked_until"  # a name in the table meta


class SqlFeedRepository(Repository):
    """Activity and gaps of feeds; times of intervals are seconds since 1970."""

    @writes(Locking.SERIALIZED)
    def save_counts(
        self, connection: sql.Connection, partition: Partition, complete_until: int, counts: pd.DataFrame
    ) -> None:
        """Save counts and progress of a partition. Neither decreases, so reading again after a crash changes nothing."""
        columns = (counts[name].tolist() for name in ("kind", "feed", "at", "events"))
        label = partition.label
        rows = [
            {"kind": kind, "feed": storable(feed), "at": at, "partition": label, "events": events}
            for kind, feed, at, events in zip(*columns, strict=True)
        ]
        _upsert_maximum(connection, feed_counts, feed_counts.c.events, rows)
        progress = {"partition": label, "complete_until": complete_until}
        _upsert_maximum(connection, feed_progress, feed_progress.c.complete_until, [progress])

    @reads
    def complete_until(self, connection: sql.Connection) -> dict[Partition, int]:
        """Return the time until which the counts of each partition are complete."""
        rows = connection.execute(sql.select(feed_progress)).all()
        parts = ((label.rpartition("/"), until) for label, until in rows)
        return {Partition(topic, int(number)): until for (topic, _, number), until in parts}

    @writes(Locking.SERIALIZED)
    def forget(self, connection: sql.Connection, partitions: Collection[Partition]) -> None:
        """Forget `complete_until` of these partitions. Their counts stay, because the past of their feeds stays true."""
        gone = feed_progress.c.partition.in_([each.label for each in partitions])
        connection.execute(sql.delete(feed_progress).where(gone))

    @reads
    def counts(self, connection: sql.Connection, since: int = 0) -> pd.DataFrame:
        """Return the counts of intervals that start at `since` or later, summed over partitions: kind, feed, at and events."""
        table = feed_counts.c
        key = (table.kind, table.feed, table.at)
        events = sql.cast(sql.func.sum(table.events), sql.BigInteger)
        query = sql.select(*key, events).where(table.at >= since).group_by(*key).order_by(*key)
        rows = connection.execute(query).all()
        from fingerprint.store import tables

        return tables.feed_count_table(rows)

    @reads
    def gaps(self, connection: sql.Connection, ended: bool = True) -> list[FeedGap]:
        """Return gaps: open ones first, the most urgent of them at the top; without `ended` only open ones."""
        table = feed_gaps.c
        over = table.ended_at.is_not(None)
        order = (over, table.ended_at.desc(), table.urgency.desc(), table.since, table.notice_id)
        query = sql.select(feed_gaps).order_by(*order)
        rows = connection.execute(query if ended else query.where(~over)).mappings()
        return [FeedGap(**row) for row in rows]

    @reads
    def checked_until(self, connection: sql.Connection) -> int:
        """Return the time until which feeds were checked for gaps; 0 if they never were."""
        return _read_checked_until(connection)

    @writes(Locking.SERIALIZED)
    def save_gaps(
        self,
        connection: sql.Connection,
        gaps: Sequence[FeedGap],
        checked_until: int,
        delete_before: int = 0,
    ) -> None:
        """Save gaps and the time `checked_until`, and delete counts of intervals before `delete_before`.

        An older check that comes late changes nothing. A stored check in the future came from a wrong clock, so any other check
        replaces it. A gap that has ended stays as it is.
        """
        if checked_until < _read_checked_until(connection) <= int(self._session.now().timestamp()):
            return
        if rows := [feed_gap_row(gap) for gap in gaps]:
            connection.execute(replace_into(connection, feed_gaps, feed_gaps.c.ended_at.is_(None)), rows)
        mark = {"name": _CHECKED_UNTIL, "value": str(checked_until)}
        connection.execute(replace_into(connection, meta), mark)
        connection.execute(sql.delete(feed_counts).where(feed_counts.c.at < delete_before))


def _read_checked_until(connection: sql.Connection) -> int:
    return int(connection.scalar(sql.select(meta.c.value).where(meta.c.name == _CHECKED_UNTIL)) or 0)


def _upsert_maximum(
    connection: sql.Connection, table: sql.Table, column: sql.Column[Any], rows: list[Row]
) -> None:
    """Insert rows; in rows that exist, replace the figure if the new one is higher."""
    statement = insert_into(connection, table)
    new = statement.excluded[column.name]
    statement = statement.on_conflict_do_update(
        index_elements=[key.name for key in table.primary_key], set_={column.name: new}, where=new > column
    )
    execute_batches(connection, statement, rows)
