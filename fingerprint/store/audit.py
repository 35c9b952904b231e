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

from fingerprint.core.case import Entry
from fingerprint.core.sanitize import storable
from fingerprint.store.queue_tables import audit
from fingerprint.store.schema import key_of


def say(
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
        "target": key_of(target),
        "detail": dict(detail or {}),
    }
    connection.execute(sql.insert(audit).values(**row))


def history(
    connection: sql.Connection, target: str = "", limit: int = 200, before: int | None = None
) -> list[Entry]:
    """The newest lines, of one target or of all; `before` is the number of the last one seen."""
    query = sql.select(audit).order_by(audit.c.number.desc()).limit(max(0, limit))
    query = query.where(audit.c.target == key_of(target)) if target else query
    query = query if before is None else query.where(audit.c.number < before)
    return [Entry(**row) for row in connection.execute(query).mappings()]
