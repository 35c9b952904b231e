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

from fingerprint.core.alert import CredentialIssue
from fingerprint.core.sanitize import storable
from fingerprint.store import schema as tables

credential_issues = sql.Table(
    "hops",
    tables.metadata,
    tables.required_text("issued_key", primary_key=True),
    tables.required_time("at", index=True),
    tables.required_text("event_id"),
    tables.required_text("action"),
    tables.required_text("principal"),
    tables.required_text("human"),
    tables.required_text("access_key"),
    tables.required_text("source_address"),
    tables.required_text("region"),
    sql.Column(tables.STORED_AT, tables.UtcDateTime, index=True),
)
_FIELDS = tuple(column.name for column in credential_issues.columns if column.name != tables.STORED_AT)
CHUNK = 10_000  # rows of one executemany


def add_credential_issues(
    connection: sql.Connection, found: Sequence[CredentialIssue], now: datetime
) -> None:
    """Add calls; what is there of a key stays."""
    rows = [
        {name: storable(getattr(each, name)) for name in _FIELDS}
        | {"issued_key": tables.index_key(each.issued_key), "access_key": tables.index_key(each.access_key)}
        | {tables.STORED_AT: now}
        for each in found
    ]
    insert = tables.insert_into(connection, credential_issues).on_conflict_do_nothing()
    for start in range(0, len(rows), CHUNK):
        connection.execute(insert, rows[start : start + CHUNK])


def find_credential_issue(connection: sql.Connection, access_key: str) -> CredentialIssue | None:
    """The call that handed out an access key."""
    found = sql.select(*(credential_issues.c[name] for name in _FIELDS)).where(
        credential_issues.c.issued_key == tables.index_key(access_key)
    )
    row = connection.execute(found).mappings().first()
    return CredentialIssue(**row) if row else None
