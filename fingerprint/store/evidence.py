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

from fingerprint.core.alert import Alert, AlertEvent, FingerprintError, NotFound
from fingerprint.core.case import MAX_PAGE_SIZE, EvidencePage
from fingerprint.core.sanitize import storable
from fingerprint.store import schema as tables

_EVENT_FIELDS = tuple(AlertEvent.__slots__)
_EVENT_COLUMNS = tables.alert_events.c


def read_alert_without_events(connection: sql.Connection, alert_id: str) -> Alert:
    """An alert without its events; NotThere without one."""
    query = sql.select(tables.alerts).where(tables.alerts.c.alert_id == storable(alert_id))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no alert {alert_id!r}: the queue lists those there are")
    return tables.to_alert(dict(row), [])


def read_event_page(
    connection: sql.Connection, alert_id: str, size: int = 200, cursor: str | None = None, raw: bool = True
) -> EvidencePage:
    """Events of an alert, the oldest first. NotThere without the alert; FingerprintError for a page too large, or one that
    nobody was given."""
    if not 0 < size <= MAX_PAGE_SIZE:
        raise FingerprintError(f"a page has 1 to {MAX_PAGE_SIZE} events, not {size}")
    own = _EVENT_COLUMNS.alert_id == storable(alert_id)
    total = connection.scalar(sql.select(sql.func.count()).select_from(tables.alert_events).where(own)) or 0
    if not total:
        read_alert_without_events(connection, alert_id)
    order = (_EVENT_COLUMNS.event_time, _EVENT_COLUMNS.event_id)
    query = _select_events(raw).where(own).order_by(*order).limit(size + 1)
    if cursor:
        query = query.where(sql.tuple_(*order) > sql.tuple_(*_parse_cursor(cursor)))
    found = [AlertEvent(**row) for row in connection.execute(query).mappings()]
    more = len(found) > size
    return EvidencePage(tuple(found[:size]), total, _cursor(found[size - 1]) if more else None)


def read_event(connection: sql.Connection, alert_id: str, event_id: str) -> AlertEvent:
    """One event, with its record."""
    own = (_EVENT_COLUMNS.alert_id == storable(alert_id)) & (
        _EVENT_COLUMNS.event_id == tables.index_key(event_id)
    )
    row = connection.execute(_select_events(raw=True).where(own)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"alert {alert_id!r} has no event {event_id!r}")
    return AlertEvent(**row)


def _select_events(raw: bool) -> sql.Select[Any]:
    """Without `raw`, records stay in the database: they are most of what an event weighs."""
    nothing = sql.literal("").label("raw")
    return sql.select(*(_EVENT_COLUMNS[name] if raw or name != "raw" else nothing for name in _EVENT_FIELDS))


def _cursor(last: AlertEvent) -> str:
    place = json.dumps([last.event_time.isoformat(), last.event_id])
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _parse_cursor(cursor: str) -> tuple[sql.BindParameter[Any], sql.BindParameter[Any]]:
    """After which time and id a page begins."""
    try:
        moment, event_id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        event_time = datetime.fromisoformat(moment).astimezone(UTC)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise FingerprintError("no page begins there: `following` is what the page before said") from None
    return (
        sql.literal(event_time, _EVENT_COLUMNS.event_time.type),
        sql.literal(storable(str(event_id)), _EVENT_COLUMNS.event_id.type),
    )
