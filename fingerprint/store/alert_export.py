"""Alerts as they leave the desk: each with its events, and with the decision by which it stands.

Example:
    >>> for alert, said in every(open_desk("sqlite:///fingerprint.sqlite")):
    ...     print(alert.title, said.decision if said else "open")

All of them are read in one transaction, so they are of one moment, and few are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sql

from fingerprint.core.alert import Alert, Disposition
from fingerprint.store import database as desk_engine
from fingerprint.store.queue_tables import cases
from fingerprint.store.schema import Row, alert_events, alerts, dispositions, to_alert
from fingerprint.store.session import SqlStore

BATCH_SIZE = 100  # alerts that are in memory at once, with their events

URGENCY_ORDER = (alerts.c.urgency_shown.desc(), alerts.c.first_event_time, alerts.c.alert_id)

AlertWithDisposition = tuple[Alert, Disposition | None]


def iterate_full_alerts(desk: SqlStore, raw: bool = True) -> Iterator[AlertWithDisposition]:
    """The most urgent first, as in the queue. Without `raw`, records are empty text."""
    engine = desk.engine
    with (
        desk_engine.translate_database_errors(engine.url),
        engine.connect() as connection,
        connection.begin(),
    ):
        ids = connection.scalars(sql.select(alerts.c.alert_id).order_by(*URGENCY_ORDER)).all()
        for start in range(0, len(ids), BATCH_SIZE):
            yield from read_full_alerts(connection, ids[start : start + BATCH_SIZE], raw)


def read_full_alerts(
    connection: sql.Connection, ids: Sequence[str], raw: bool = True
) -> list[AlertWithDisposition]:
    """Those of these alerts that are there, in their order."""
    rows = {
        row["alert_id"]: dict(row)
        for row in connection.execute(sql.select(alerts).where(alerts.c.alert_id.in_(ids))).mappings()
    }
    events: dict[str, list[Row]] = {name: [] for name in rows}
    for event in connection.execute(_select_events(ids, raw)).mappings():
        events[event["alert_id"]].append(dict(event))
    said = _current_dispositions(connection, ids)
    return [(_with_shown_urgency(rows[name], events[name]), said.get(name)) for name in ids if name in rows]


def _with_shown_urgency(row: Row, events: Sequence[Row]) -> Alert:
    """As urgent as the queue shows it: less than by itself, where many others show the same surprise."""
    return to_alert(row | {"urgency": row["urgency_shown"]}, events)


def _select_events(ids: Sequence[str], raw: bool) -> sql.Select[Any]:
    """Of these alerts, the oldest first. Records that are not wanted stay in the database: they are most of what there is."""
    table = alert_events
    nothing = sql.literal("").label("raw")
    columns = [column if raw or column.name != "raw" else nothing for column in table.columns]
    return (
        sql.select(*columns).where(table.c.alert_id.in_(ids)).order_by(table.c.event_time, table.c.event_id)
    )


def _current_dispositions(connection: sql.Connection, ids: Sequence[str]) -> dict[str, Disposition]:
    """The newest disposition of each, where its case says that it stands: neither reopened nor outgrown."""
    stands = cases.c.decision.is_not(None) & (cases.c.decided_events >= alerts.c.event_count)
    query = (
        sql.select(dispositions)
        .join_from(dispositions, cases, cases.c.alert_id == dispositions.c.alert_id)
        .join(alerts, alerts.c.alert_id == cases.c.alert_id)
        .where(dispositions.c.alert_id.in_(ids), stands)
        .order_by(dispositions.c.at)
    )
    return {row["alert_id"]: Disposition(**row) for row in connection.execute(query).mappings()}
