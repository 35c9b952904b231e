"""What people decide of alerts: rows of the desk that no scorer ever writes.

Example:
    >>> with engine.begin() as connection:
    ...     add(connection, Disposition(alert_id, "benign", "maria", "a new laptop", now, events=7))
    ...     standing(connection)
    {'397edb7b6806': 'benign'}
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint import triage
from fingerprint.domain import Decision, Disposition
from fingerprint.edges import desk_tables as tables
from fingerprint.hostile import storable

_FIELDS = tuple(column.name for column in tables.dispositions.columns)


def add(connection: sql.Connection, said: Disposition) -> None:
    """Add a disposition; the same again changes nothing."""
    row = {name: storable(getattr(said, name)) for name in _FIELDS}
    table = tables.dispositions
    same = (table.c.alert_id == row["alert_id"]) & (table.c.at == row["at"])
    connection.execute(sql.delete(table).where(same))
    connection.execute(sql.insert(table).values(**row))


def dispositions(connection: sql.Connection, alert_id: str | None = None) -> list[Disposition]:
    """All of them, or one alert's, the oldest first."""
    table = tables.dispositions
    query = sql.select(table).order_by(table.c.at, table.c.alert_id)
    query = query if alert_id is None else query.where(table.c.alert_id == storable(alert_id))
    return [Disposition(**row) for row in connection.execute(query).mappings()]


def standing(connection: sql.Connection) -> dict[str, Decision]:
    """What is decided of each alert now, by id; those that are open are not in there (`triage.standing`)."""
    newest = {said.alert_id: said for said in dispositions(connection)}
    events, judged = tables.alert_events.c.alert_id, tables.dispositions.c.alert_id
    sizes = (
        sql.select(events, sql.func.count()).where(events.in_(sql.select(judged).distinct())).group_by(events)
    )
    evidence = {row[0]: row[1] for row in connection.execute(sizes)}
    return triage.standing(newest.values(), evidence)
