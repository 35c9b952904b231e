"""What explains an alert, read in parts: itself, its events page by page, one event with its record.

Example:
    >>> with engine.connect() as connection:
    ...     explained(connection, "397edb7b6806").drivers[0].feature
    ...     page(connection, "397edb7b6806", size=200).following
    'network of the source'
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sql

from fingerprint.core.alert import Alert, AlertEvent, FingerprintError, NotThere
from fingerprint.core.case import LARGEST_PAGE, Evidence
from fingerprint.core.sanitize import storable
from fingerprint.store import schema as tables

_FIELDS = tuple(AlertEvent.__slots__)
_TABLE = tables.alert_events.c


def explained(connection: sql.Connection, alert_id: str) -> Alert:
    """An alert without its events; NotThere without one."""
    query = sql.select(tables.alerts).where(tables.alerts.c.alert_id == storable(alert_id))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise NotThere(f"there is no alert {alert_id!r}: the queue lists those there are")
    return tables.alert_of(dict(row), [])


def page(
    connection: sql.Connection, alert_id: str, size: int = 200, following: str | None = None, raw: bool = True
) -> Evidence:
    """Events of an alert, the oldest first. NotThere without the alert; FingerprintError for a page too large, or one that
    nobody was given."""
    if not 0 < size <= LARGEST_PAGE:
        raise FingerprintError(f"a page has 1 to {LARGEST_PAGE} events, not {size}")
    own = _TABLE.alert_id == storable(alert_id)
    total = connection.scalar(sql.select(sql.func.count()).select_from(tables.alert_events).where(own)) or 0
    if not total:
        explained(connection, alert_id)
    order = (_TABLE.event_time, _TABLE.event_id)
    query = _select(raw).where(own).order_by(*order).limit(size + 1)
    if following:
        query = query.where(sql.tuple_(*order) > sql.tuple_(*_place(following)))
    found = [AlertEvent(**row) for row in connection.execute(query).mappings()]
    more = len(found) > size
    return Evidence(tuple(found[:size]), total, _cursor(found[size - 1]) if more else None)


def event(connection: sql.Connection, alert_id: str, event_id: str) -> AlertEvent:
    """One event, with its record."""
    own = (_TABLE.alert_id == storable(alert_id)) & (_TABLE.event_id == tables.key_of(event_id))
    row = connection.execute(_select(raw=True).where(own)).mappings().one_or_none()
    if row is None:
        raise NotThere(f"alert {alert_id!r} has no event {event_id!r}")
    return AlertEvent(**row)


def _select(raw: bool) -> sql.Select[Any]:
    """Without `raw`, records stay in the database: they are most of what an event weighs."""
    nothing = sql.literal("").label("raw")
    return sql.select(*(_TABLE[name] if raw or name != "raw" else nothing for name in _FIELDS))


def _cursor(last: AlertEvent) -> str:
    place = json.dumps([last.event_time.isoformat(), last.event_id])
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _place(following: str) -> tuple[sql.BindParameter[Any], sql.BindParameter[Any]]:
    """After which time and id a page begins."""
    try:
        moment, event_id = json.loads(base64.urlsafe_b64decode(following + "=" * (-len(following) % 4)))
        event_time = datetime.fromisoformat(moment).astimezone(UTC)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise FingerprintError("no page begins there: `following` is what the page before said") from None
    return (
        sql.literal(event_time, _TABLE.event_time.type),
        sql.literal(storable(str(event_id)), _TABLE.event_id.type),
    )
