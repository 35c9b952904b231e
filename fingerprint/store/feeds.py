"""What each partition heard of each feed, and the notices of those that fell silent: rows on the desk.

Example:
    >>> with engine.begin() as connection:
    ...     count(connection, Partition("events", 3), 1_770_000_000, counts)
    ...     closed(connection)
    {Partition(topic='events', number=3): 1770000000}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import sqlalchemy as sql

from fingerprint.core.alert import FeedGap
from fingerprint.core.ports import Partition
from fingerprint.core.sanitize import storable
from fingerprint.store import schema as tables
from fingerprint.store.schema import Row

CHUNK = 10_000  # rows of one executemany
_CHECKED_UNTIL = "notices_upto"  # its name in the table meta


def save_feed_counts(
    connection: sql.Connection, partition: Partition, complete_until: int, counted: pd.DataFrame
) -> None:
    """Counts and progress of one partition; neither falls."""
    place = partition.label
    columns = (counted[name].tolist() for name in ("kind", "feed", "at", "events"))
    rows = [
        {"kind": kind, "feed": storable(feed), "at": at, "partition": place, "events": events}
        for kind, feed, at, events in zip(*columns, strict=True)
    ]
    _upsert_maximum(connection, tables.feed_counts, tables.feed_counts.c.events, rows)
    progress = {"partition": place, "closed": complete_until}
    _upsert_maximum(connection, tables.feed_progress, tables.feed_progress.c.closed, [progress])


def read_feed_progress(connection: sql.Connection) -> dict[Partition, int]:
    """How far each partition has come, seconds since 1970."""
    rows = connection.execute(sql.select(tables.feed_progress)).all()
    parts = ((place.rpartition("/"), upto) for place, upto in rows)
    return {Partition(topic, int(number)): upto for (topic, _, number), upto in parts}


def read_feed_counts(connection: sql.Connection, since: int) -> pd.DataFrame:
    """Summed over partitions."""
    table = tables.feed_counts.c
    key = (table.kind, table.feed, table.at)
    events = sql.cast(sql.func.sum(table.events), sql.BigInteger)
    query = sql.select(*key, events).where(table.at >= since).group_by(*key).order_by(*key)
    rows = connection.execute(query).all()
    return pd.DataFrame(rows, columns=["kind", "feed", "at", "events"]).astype({"at": int, "events": int})


def read_feed_gaps(connection: sql.Connection, ended: bool) -> list[FeedGap]:
    """Open ones first."""
    table = tables.feed_gaps
    over = table.c.ended_at.is_not(None)
    order = (over, table.c.ended_at.desc(), table.c.urgency.desc(), table.c.since, table.c.notice_id)
    query = sql.select(table).order_by(*order)
    rows = connection.execute(query if ended else query.where(~over)).mappings()
    return [tables.to_feed_gap(dict(row)) for row in rows]


def read_checked_until(connection: sql.Connection) -> int:
    """Up to where feeds were looked at."""
    value = connection.scalar(sql.select(tables.meta.c.value).where(tables.meta.c.name == _CHECKED_UNTIL))
    return int(value or 0)


def save_feed_gaps(
    connection: sql.Connection, gaps: Sequence[FeedGap], checked_until: int, delete_before: int, now: int
) -> None:
    """Notices, how far was looked, and what need not be kept. Whoever comes late with an older look changes nothing; a look that
    went past `now` (seconds since 1970) was misled by a clock, and any other takes its place."""
    if checked_until < read_checked_until(connection) <= now:
        return
    table = tables.feed_gaps
    statement = tables.insert_into(connection, table)
    new = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
    rows = [tables.feed_gap_row(notice) for notice in gaps]
    if rows:
        still_open = table.c.ended_at.is_(None)
        connection.execute(
            statement.on_conflict_do_update(index_elements=["notice_id"], set_=new, where=still_open), rows
        )
    mark = tables.insert_into(connection, tables.meta)
    mark = mark.on_conflict_do_update(index_elements=["name"], set_={"value": mark.excluded.value})
    connection.execute(mark, [{"name": _CHECKED_UNTIL, "value": str(checked_until)}])
    connection.execute(sql.delete(tables.feed_counts).where(tables.feed_counts.c.at < delete_before))


def _upsert_maximum(
    connection: sql.Connection, table: sql.Table, column: sql.Column[Any], rows: list[Row]
) -> None:
    """Insert, or raise a figure to a higher one."""
    statement = tables.insert_into(connection, table)
    new = statement.excluded[column.name]
    statement = statement.on_conflict_do_update(
        index_elements=[key.name for key in table.primary_key], set_={column.name: new}, where=new > column
    )
    for start in range(0, len(rows), CHUNK):
        connection.execute(statement, rows[start : start + CHUNK])
