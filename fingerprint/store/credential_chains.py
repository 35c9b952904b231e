"""Calls that handed out credentials, as rows of the desk: who began the sessions that alerts are about.

Example:
    >>> with engine.begin() as connection:
    ...     remember(connection, chains.issued(events), now)
    ...     hop(connection, "ASIAEXAMPLE").principal
    '123456789012:user/alice'
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sql

from fingerprint.core.alert import Hop
from fingerprint.core.sanitize import storable
from fingerprint.store import schema as tables

hops = sql.Table(
    "hops",
    tables.metadata,
    tables.text("issued_key", primary_key=True),
    tables.when("at", index=True),
    tables.text("event_id"),
    tables.text("action"),
    tables.text("principal"),
    tables.text("human"),
    tables.text("access_key"),
    tables.text("source_address"),
    tables.text("region"),
    sql.Column(tables.STORED, tables.Utc, index=True),
)
_FIELDS = tuple(column.name for column in hops.columns if column.name != tables.STORED)
CHUNK = 10_000  # rows of one executemany


def remember(connection: sql.Connection, found: Sequence[Hop], now: datetime) -> None:
    """Add calls; what is there of a key stays."""
    rows = [
        {name: storable(getattr(each, name)) for name in _FIELDS}
        | {"issued_key": tables.key_of(each.issued_key), "access_key": tables.key_of(each.access_key)}
        | {tables.STORED: now}
        for each in found
    ]
    insert = tables.insert_of(connection, hops).on_conflict_do_nothing()
    for start in range(0, len(rows), CHUNK):
        connection.execute(insert, rows[start : start + CHUNK])


def hop(connection: sql.Connection, access_key: str) -> Hop | None:
    """The call that handed out an access key."""
    found = sql.select(*(hops.c[name] for name in _FIELDS)).where(
        hops.c.issued_key == tables.key_of(access_key)
    )
    row = connection.execute(found).mappings().first()
    return Hop(**row) if row else None
