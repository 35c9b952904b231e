"""Programs that say how they are: a row each, overwritten as often as they speak.

Example:
    >>> with engine.begin() as connection:
    ...     report(connection, Report("stream", "scorer-0", now, lag=120, figures={"dead": 3}))
    ...     [each.name for each in reports(connection, now)]
    ['scorer-0']
"""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sql

from fingerprint.core.case import ProgramStatus
from fingerprint.core.sanitize import storable
from fingerprint.store import schema as tables

HEARTBEAT_RETENTION = timedelta(days=7)  # after which a program that is silent is gone for good

heartbeats = sql.Table(
    "programs",
    tables.metadata,
    tables.required_text("kind", primary_key=True),
    tables.required_text("name", primary_key=True),
    tables.required_time("at"),
    sql.Column("lag", sql.BigInteger),
    sql.Column("figures", tables.FiniteJson, nullable=False),
    tables.required_text("trouble", server_default=""),
)


def save_heartbeat(connection: sql.Connection, heartbeat: ProgramStatus) -> None:
    """What a program says of itself, over what it said before; who was silent for FORGET is dropped."""
    row = {name: storable(getattr(heartbeat, name)) for name in ProgramStatus.__slots__}
    statement = tables.insert_into(connection, heartbeats).values(**row)
    new = {name: statement.excluded[name] for name in ("at", "lag", "figures", "trouble")}
    connection.execute(statement.on_conflict_do_update(index_elements=["kind", "name"], set_=new))
    connection.execute(sql.delete(heartbeats).where(heartbeats.c.at < heartbeat.at - HEARTBEAT_RETENTION))


def read_heartbeats(connection: sql.Connection, now: datetime) -> list[ProgramStatus]:
    """What was said last, by kind and name, of the days that are not forgotten."""
    recent = sql.select(heartbeats).where(heartbeats.c.at >= now - HEARTBEAT_RETENTION)
    rows = connection.execute(recent.order_by(heartbeats.c.kind, heartbeats.c.name)).mappings()
    return [ProgramStatus(**row) for row in rows]
