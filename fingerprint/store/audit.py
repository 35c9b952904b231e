"""Who did what to what, and when: rows of the desk that are only ever added, in the transaction of what they tell of.

Example:
    >>> with engine.begin() as connection:
    ...     say(connection, now, "maria", "alert.assign", "397edb7b6806", {"to": "maria"})
    ...     history(connection, "397edb7b6806")[0].action
    'alert.assign'

The database itself refuses to change or remove a line (triggers, `migrations/versions/0002_queue.py`). That binds whoever has
no more rights than the programs have; the owner of the tables could take the triggers off.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sql

from fingerprint.core.case import AuditEntry
from fingerprint.core.sanitize import storable
from fingerprint.store.queue_tables import audit_entries
from fingerprint.store.schema import index_key


def add_audit_entry(
    connection: sql.Connection,
    at: datetime,
    by: str,
    action: str,
    target: str,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Add a line. `action` is `noun.verb`; `target` is what it was done to, by its id. Never put a secret into `detail`."""
    row = {
        "at": at,
        "by": storable(by),
        "action": action,
        "target": index_key(target),
        "detail": dict(detail or {}),
    }
    connection.execute(sql.insert(audit_entries).values(**row))


def read_audit_log(
    connection: sql.Connection, target: str = "", limit: int = 200, before: int | None = None
) -> list[AuditEntry]:
    """The newest lines, of one target or of all; `before` is the number of the last one seen."""
    query = sql.select(audit_entries).order_by(audit_entries.c.number.desc()).limit(max(0, limit))
    query = query.where(audit_entries.c.target == index_key(target)) if target else query
    query = query if before is None else query.where(audit_entries.c.number < before)
    return [AuditEntry(**row) for row in connection.execute(query).mappings()]
