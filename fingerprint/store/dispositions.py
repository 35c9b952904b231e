"""What people decide of alerts: rows of the desk that no scorer ever writes.

Example:
    >>> with engine.begin() as connection:
    ...     add(connection, Disposition(alert_id, "benign", "maria", "a new laptop", now, events=7))
    ...     standing(connection)
    {'397edb7b6806': 'benign'}
"""

from __future__ import annotations

from datetime import datetime

import pandas as pd
import sqlalchemy as sql

from fingerprint.core import case
from fingerprint.core.alert import Decision, Disposition
from fingerprint.core.sanitize import storable
from fingerprint.store import schema as tables
from fingerprint.store.queue_tables import cases

_FIELDS = tuple(column.name for column in tables.dispositions.columns)


def add_disposition(connection: sql.Connection, disposition: Disposition) -> bool:
    """Add a disposition; whether it is news: the same again changes nothing."""
    row = {name: storable(getattr(disposition, name)) for name in _FIELDS}
    table = tables.dispositions
    same = (table.c.alert_id == row["alert_id"]) & (table.c.at == row["at"])
    known = connection.execute(sql.select(table).where(same)).mappings().one_or_none()
    if known is not None and dict(known) == row:
        return False
    connection.execute(sql.delete(table).where(same))
    connection.execute(sql.insert(table).values(**row))
    return True


def read_dispositions(connection: sql.Connection, alert_id: str | None = None) -> list[Disposition]:
    """All of them, or one alert's, the oldest first."""
    table = tables.dispositions
    query = sql.select(table).order_by(table.c.at, table.c.alert_id)
    query = query if alert_id is None else query.where(table.c.alert_id == storable(alert_id))
    return [Disposition(**row) for row in connection.execute(query).mappings()]


def read_current_decisions(connection: sql.Connection) -> dict[str, Decision]:
    """What is decided of each alert now, by id; those that are open are not in there (`triage.standing`)."""
    return {alert_id: each.decision for alert_id, each in _current_dispositions(connection).items()}


def read_decided_entities(connection: sql.Connection, until: datetime) -> pd.DataFrame:
    """Whose events lie in alerts that are decided: a row for each alert and entity, with the newest of its events before
    `until`, the decision, and as `alert` the id of what was decided on (a duplicate's original)."""
    decided = _current_dispositions(connection)
    events, alerts = tables.alert_events.c, tables.alerts.c
    there = events.alert_id.in_(sql.select(tables.dispositions.c.alert_id).distinct())
    query = (
        sql.select(events.alert_id, alerts.principal, events.entity, sql.func.max(events.event_time))
        .join(tables.alerts, alerts.alert_id == events.alert_id)
        .where(there, events.event_time < until)
        .group_by(events.alert_id, alerts.principal, events.entity)
        .order_by(events.alert_id, events.entity)
    )
    rows = [row for row in connection.execute(query).all() if row[0] in decided]
    table = pd.DataFrame(rows, columns=["alert", "principal", "entity", "event_time"], dtype=object)
    by = [decided[alert_id] for alert_id in table["alert"]]
    times = pd.to_datetime(table["event_time"], utc=True).astype("datetime64[us, UTC]")
    alert, decision = [each.alert_id for each in by], [each.decision for each in by]
    return table.assign(alert=alert, event_time=times, decision=decision)


def _current_dispositions(connection: sql.Connection) -> dict[str, Disposition]:
    """By which disposition each alert stands now, by id (`triage.decided`); what was opened again has none."""
    reopened = set(connection.scalars(sql.select(cases.c.alert_id).where(cases.c.decision.is_(None))))
    newest = {said.alert_id: said for said in read_dispositions(connection) if said.alert_id not in reopened}
    events, judged = tables.alert_events.c.alert_id, tables.dispositions.c.alert_id
    sizes = (
        sql.select(events, sql.func.count()).where(events.in_(sql.select(judged).distinct())).group_by(events)
    )
    evidence = {row[0]: row[1] for row in connection.execute(sizes)}
    return case.current_dispositions(newest.values(), evidence)
