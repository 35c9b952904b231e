"""What a training asks of the desk: which events of a span were flagged, and what became of them.

Example:
    >>> with engine.connect() as connection, connection.begin():
    ...     for table in flagged(connection, since, until):     # event_id, event_time, entity, word
    ...         table["word"].unique()
    ['open', 'true_positive']

The word of an event is the decision on its alert (`true_positive`, `benign`, `false_positive`), `open` while there is none, or
`vote` where a detector voted on it. An event comes once for each alert and each vote it is in.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pandas as pd
import sqlalchemy as sql

from fingerprint.store import dispositions
from fingerprint.store import schema as tables

FETCH_ROWS = 50_000  # of one table
_COLUMNS = ["event_id", "event_time", "entity", "word"]


def read_flagged_events(
    connection: sql.Connection, since: datetime, until: datetime
) -> Iterator[pd.DataFrame]:
    """Events in alerts, then events with a vote, from `since` on and before `until`."""
    standing = dispositions.read_current_decisions(connection)
    for table in _read_frames(
        connection, _select_in_range(tables.alert_events, tables.alert_events.c.alert_id, since, until)
    ):
        yield table.assign(word=table["word"].map(standing).fillna("open"))
    votes = _select_in_range(tables.votes, sql.literal("vote"), since, until)
    yield from _read_frames(connection, votes.where(tables.votes.c.vote, _is_event_vote()))


def oldest_vote_time(connection: sql.Connection) -> datetime | None:
    """From when on the desk knows of votes: what was flagged before is not known to be."""
    oldest: datetime | None = connection.scalar(sql.select(sql.func.min(tables.votes.c.event_time)))
    return oldest


def newest_vote_time(connection: sql.Connection) -> datetime | None:
    """Up to when votes are known."""
    newest: datetime | None = connection.scalar(sql.select(sql.func.max(tables.votes.c.event_time)))
    return newest


def alert_ids_since(connection: sql.Connection, since: datetime) -> list[str]:
    """The ids of alerts with an event from then on."""
    table = tables.alerts.c
    query = sql.select(table.alert_id).where(table.last_event_time >= since).order_by(table.alert_id)
    return list(connection.scalars(query))


def _is_event_vote() -> sql.ColumnElement[bool]:
    """Leave out votes on intervals: their ids name no event."""
    from fingerprint.detection.detectors import (  # late: few programs train
        available_detectors,
        interval_detectors,
    )

    return tables.votes.c.detector.not_in(interval_detectors(available_detectors()))


def _select_in_range(
    table: sql.Table, label: sql.ColumnElement[Any], since: datetime, until: datetime
) -> sql.Select[Any]:
    time = table.c.event_time
    columns = (table.c.event_id, time, table.c.entity, label)
    return sql.select(*columns).where(time >= since, time < until)


def _read_frames(connection: sql.Connection, query: sql.Select[Any]) -> Iterator[pd.DataFrame]:
    for rows in connection.execution_options(yield_per=FETCH_ROWS).execute(query).partitions():
        yield pd.DataFrame(rows, columns=_COLUMNS)
