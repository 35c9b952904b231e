"""The audit log (actor, action, time), and the change feed: the alerts that changed since a number.

Example:
    >>> store.audit.entries("397edb7b6806")[0].action
    'alert.assign'
    >>> store.changes.since(41)
    [AlertChange(number=42, alert_id='397edb7b6806')]

Triggers refuse to change or remove a row of the audit. They bind all users with the rights of the programs; only the owner of the
tables could remove the triggers.

Numbers of changes become visible in their order: a transaction that marks changes locks the counter's row until it commits. So a
reader who has seen number 42 has not missed number 41. A sequence does not guarantee that. Marking is the last step of a
transaction, because other transactions wait from there until the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Any

import sqlalchemy as sql

from fingerprint.core.case import AlertChange, AuditEntry, AuditFilter
from fingerprint.core.sanitize import index_key, storable
from fingerprint.store.database import Repository, reads
from fingerprint.store.schema import (
    alert_changes,
    audit_entries,
    change_counter,
    execute_batches,
    insert_into,
    replace_into,
)


class SqlAuditRepository(Repository):
    """The audit log. Repositories add an entry in the same transaction as the change (`add_audit_entry`)."""

    @reads
    def entries(
        self, connection: sql.Connection, target: str = "", limit: int = 200, before: int | None = None
    ) -> list[AuditEntry]:
        """Return the newest entries, of one target or of all. For the next page, `before` is the number of the last entry."""
        return _find_entries(connection, AuditFilter(target), limit, before)

    @reads
    def find(
        self,
        connection: sql.Connection,
        audit_filter: AuditFilter,
        limit: int = 200,
        before: int | None = None,
    ) -> list[AuditEntry]:
        """Return the newest entries of a filter. For the next page, `before` is the number of the last entry."""
        return _find_entries(connection, audit_filter, limit, before)


class SqlChangeRepository(Repository):
    """The change feed of the queue."""

    @reads
    def newest_number(self, connection: sql.Connection) -> int:
        """Return the number of the newest change, 0 before the first."""
        return latest_change_number(connection)

    @reads
    def since(self, connection: sql.Connection, number: int, limit: int = 500) -> list[AlertChange]:
        """Return the alerts that changed after a number, the oldest change first, about `limit` of them."""
        return changes_after(connection, number, limit)


def _find_entries(
    connection: sql.Connection, audit_filter: AuditFilter, limit: int, before: int | None
) -> list[AuditEntry]:
    """Return entries, the newest first. A filter by target uses an index; others read entries from the newest on."""
    table = audit_entries.c
    query = sql.select(audit_entries).order_by(table.number.desc()).limit(max(0, limit))
    if audit_filter.target:
        query = query.where(table.target == index_key(audit_filter.target))
    if audit_filter.by:
        query = query.where(table.by == storable(audit_filter.by))
    if action := storable(audit_filter.action):
        query = query.where((table.action == action) | table.action.startswith(f"{action}.", autoescape=True))
    if audit_filter.since is not None:
        query = query.where(table.at >= audit_filter.since)
    if audit_filter.until is not None:
        query = query.where(table.at <= audit_filter.until)
    query = query if before is None else query.where(table.number < before)
    return [AuditEntry(**row) for row in connection.execute(query).mappings()]


def audit_digest(text: str) -> str:
    """Return a digest of a name, or of text that may contain one: the audit is never erased, so it must not store names."""
    return blake2b(storable(text).encode(), digest_size=8).hexdigest()


def add_audit_entry(
    connection: sql.Connection,
    at: datetime,
    by: str,
    action: str,
    target: str,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Add an entry. `action` is `noun.verb`, `target` the id of the changed object; never put a secret into `detail`."""
    row = {
        "at": at,
        "by": storable(by),
        "action": action,
        "target": index_key(target),
        "detail": dict(detail or {}),
    }
    connection.execute(sql.insert(audit_entries).values(**row))


def mark_changed(connection: sql.Connection, alert_ids: Collection[str]) -> None:
    """Give these alerts the next number. It must be the last step of the transaction before the commit."""
    rows = [{"alert_id": alert_id} for alert_id in sorted({storable(alert_id) for alert_id in alert_ids})]
    if not rows:
        return
    number = _next_number(connection)
    numbered = [row | {"number": number} for row in rows]
    execute_batches(connection, replace_into(connection, alert_changes), numbered)


def latest_change_number(connection: sql.Connection) -> int:
    """Return the number of the newest change, 0 before the first."""
    return connection.scalar(sql.select(change_counter.c.number)) or 0


def changes_after(connection: sql.Connection, number: int, limit: int = 500) -> list[AlertChange]:
    """Return about `limit` changes after a number; the next page begins after the last number.

    The changes of one transaction have one number and are never divided.
    """
    table = alert_changes.c
    later = sql.select(table.number, table.alert_id).where(table.number > number)
    in_order = later.order_by(table.number, table.alert_id)
    last = connection.scalar(in_order.with_only_columns(table.number).offset(limit - 1).limit(1))
    query = in_order if last is None else in_order.where(table.number <= last)
    return [AlertChange(*row) for row in connection.execute(query)]


def _next_number(connection: sql.Connection) -> int:
    statement = insert_into(connection, change_counter).values(only=1, number=1)
    counted = statement.on_conflict_do_update(
        index_elements=["only"], set_={"number": change_counter.c.number + 1}
    )
    return int(connection.execute(counted.returning(change_counter.c.number)).scalar_one())
