"""Principals: their events, issued credentials and notes, from their alerts.

Example:
    >>> found = store.principals.events("123456789012:user/ana", limit=2_000)
    >>> found.total, found.events[-1].event.action
    (31, 'StopLogging')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sql

from fingerprint.core.alert import CredentialIssue
from fingerprint.core.case import CaseNote, PrincipalEvent, PrincipalEvents
from fingerprint.core.sanitize import index_key, storable
from fingerprint.store.alerts import CREDENTIAL_ISSUE_COLUMNS
from fingerprint.store.database import Repository, reads
from fingerprint.store.rows import to_event
from fingerprint.store.schema import alert_events, alerts, credential_issues, id_batches, notes


class SqlPrincipalRepository(Repository):
    """Principals: their events, issued credentials and notes, from their alerts."""

    @reads
    def events(self, connection: sql.Connection, principal: str, limit: int) -> PrincipalEvents:
        """Return the newest events of all alerts of a principal, the oldest first, without their records."""
        return _read_events(connection, alerts.c.principal == storable(principal), limit)

    @reads
    def events_of_alerts(
        self, connection: sql.Connection, alert_ids: Sequence[str], limit: int
    ) -> PrincipalEvents:
        """Return the newest events of some alerts, the oldest first, without their records."""
        return _read_events(connection, alerts.c.alert_id.in_([storable(each) for each in alert_ids]), limit)

    @reads
    def credential_issues(
        self, connection: sql.Connection, principal: str, access_keys: Sequence[str], limit: int
    ) -> list[CredentialIssue]:
        """Return the newest calls that issued credentials, the oldest of them first.

        They are the calls of the principal, the calls made with one of the keys, and the calls that issued one of the keys. An
        empty principal asks for the keys alone.
        """
        table = credential_issues.c
        keys = [index_key(key) for key in access_keys if key]
        own = table.principal == storable(principal) if principal else sql.false()
        either = own | table.access_key.in_(keys) | table.issued_key.in_(keys)
        query = sql.select(*(table[name] for name in CREDENTIAL_ISSUE_COLUMNS)).where(either)
        newest = query.order_by(table.at.desc(), table.issued_key).limit(limit)
        return [CredentialIssue(**row) for row in connection.execute(newest).mappings()][::-1]

    @reads
    def notes(self, connection: sql.Connection, principal: str, limit: int) -> list[CaseNote]:
        """Return the newest notes on alerts of a principal, the newest first."""
        query = sql.select(notes).join_from(notes, alerts, alerts.c.alert_id == notes.c.alert_id)
        own = query.where(alerts.c.principal == storable(principal))
        rows = connection.execute(own.order_by(notes.c.at.desc(), notes.c.note_id).limit(limit)).mappings()
        return [CaseNote(**row) for row in rows]


def _read_events(connection: sql.Connection, chosen: sql.ColumnElement[bool], limit: int) -> PrincipalEvents:
    """Return the newest events of the chosen alerts. An event of two alerts is counted and returned once."""
    owners = {
        row[0]: row[1]
        for row in connection.execute(sql.select(alerts.c.alert_id, alerts.c.principal).where(chosen))
    }
    found = sorted(
        (event for batch in id_batches(list(owners)) for event in _read_batch(connection, batch, limit)),
        key=lambda row: (row["event_time"], row["event_id"]),
    )
    once = list({row["event_id"]: row for row in found}.values())
    total = sum(_count(connection, batch) for batch in id_batches(list(owners)))
    events = (
        PrincipalEvent(row["alert_id"], owners[row["alert_id"]], to_event(row)) for row in once[-limit:]
    )
    return PrincipalEvents(tuple(events), max(total - (len(found) - len(once)), len(once)))


def _read_batch(connection: sql.Connection, alert_ids: Sequence[str], limit: int) -> Iterator[dict[str, Any]]:
    """Yield the newest events of some alerts, each once."""
    table = alert_events.c
    once = (
        sql.select(table.event_id, sql.func.min(table.alert_id).label("alert_id"))
        .where(table.alert_id.in_(alert_ids))
        .group_by(table.event_id)
        .order_by(sql.func.max(table.event_time).desc(), table.event_id.desc())
        .limit(limit)
        .subquery()
    )
    empty = sql.literal("").label("raw")  # records are most of an event's bytes
    query = sql.select(*(empty if column.name == "raw" else column for column in alert_events.columns))
    same = (table.event_id == once.c.event_id) & (table.alert_id == once.c.alert_id)
    yield from (dict(row) for row in connection.execute(query.join(once, same)).mappings())


def _count(connection: sql.Connection, alert_ids: Sequence[str]) -> int:
    query = sql.select(sql.func.count(alert_events.c.event_id.distinct()))
    return connection.scalar(query.where(alert_events.c.alert_id.in_(alert_ids))) or 0
