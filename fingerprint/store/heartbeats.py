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

from fingerprint.core.case import Report
from fingerprint.core.sanitize import storable
from fingerprint.store import schema as tables

FORGET = timedelta(days=7)  # after which a program that is silent is gone for good

programs = sql.Table(
    "programs",
    tables.metadata,
    tables.text("kind", primary_key=True),
    tables.text("name", primary_key=True),
    tables.when("at"),
    sql.Column("lag", sql.BigInteger),
    sql.Column("figures", tables.Json, nullable=False),
    tables.text("trouble", server_default=""),
)


def report(connection: sql.Connection, said: Report) -> None:
    """What a program says of itself, over what it said before; who was silent for FORGET is dropped."""
    row = {name: storable(getattr(said, name)) for name in Report.__slots__}
    statement = tables.insert_of(connection, programs).values(**row)
    new = {name: statement.excluded[name] for name in ("at", "lag", "figures", "trouble")}
    connection.execute(statement.on_conflict_do_update(index_elements=["kind", "name"], set_=new))
    connection.execute(sql.delete(programs).where(programs.c.at < said.at - FORGET))


def reports(connection: sql.Connection, now: datetime) -> list[Report]:
    """What was said last, by kind and name, of the days that are not forgotten."""
    recent = sql.select(programs).where(programs.c.at >= now - FORGET)
    rows = connection.execute(recent.order_by(programs.c.kind, programs.c.name)).mappings()
    return [Report(**row) for row in rows]
