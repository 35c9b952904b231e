"""The queue page by page: rows of alerts without their events, in one of four orders.

Example:
    >>> with engine.connect() as connection:
    ...     first = page(connection, Filter(), "urgency", 50, None, now)
    ...     page(connection, Filter(), "urgency", 50, first.following, now)

Pages are cut by the last row's place in the order (keyset), not by counting rows: what comes in above does not push a row onto
the next page, and the hundredth page costs what the first does.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import sqlalchemy as sql

from fingerprint.core.alert import FingerprintError, NotFound
from fingerprint.core.case import MAX_PAGE_SIZE, AlertFilter, QueueOrder, QueuePage, QueueRow
from fingerprint.core.sanitize import storable
from fingerprint.store.filters import ALERTS_WITH_CASES, ASSIGNEE, OPEN, Condition, filter_conditions
from fingerprint.store.queue_tables import alert_values, cases, notes
from fingerprint.store.schema import alerts
from fingerprint.store.suppressions import hiding_suppression

Column = sql.Column[Any]

URGENCY, FIRST_EVENT_TIME, LAST_EVENT_TIME, EVENT_COUNT, ALERT_ID = (
    alerts.c[name]
    for name in ("urgency_shown", "first_event_time", "last_event_time", "event_count", "alert_id")
)
ORDERS: dict[QueueOrder, tuple[tuple[Column, bool], ...]] = {  # with True the largest comes first
    "urgency": ((URGENCY, True), (FIRST_EVENT_TIME, False), (ALERT_ID, False)),
    "newest": ((LAST_EVENT_TIME, True), (ALERT_ID, False)),
    "oldest": ((FIRST_EVENT_TIME, False), (ALERT_ID, False)),
    "events": ((EVENT_COUNT, True), (FIRST_EVENT_TIME, False), (ALERT_ID, False)),
}
_MULTI_VALUED_FIELDS = {"service": "services", "account": "accounts", "tactic": "tactics"}


def read_queue_page(
    connection: sql.Connection,
    which: AlertFilter,
    order: QueueOrder,
    size: int,
    cursor: str | None,
    now: datetime,
) -> QueuePage:
    """FingerprintError for a `following` that no page of this filter and order gave, or a size beyond LARGEST_PAGE."""
    if not 0 < size <= MAX_PAGE_SIZE:
        raise FingerprintError(f"a page has 1 to {MAX_PAGE_SIZE} rows, not {size}")
    asked = filter_conditions(which, now)
    query = _select(now).where(*asked).order_by(*_order_by(order)).limit(size + 1)
    query = query if cursor is None else query.where(_after(order, _parse_cursor(cursor, which, order)))
    found = read_queue_rows(connection, query)
    total = connection.scalar(sql.select(sql.func.count()).select_from(ALERTS_WITH_CASES).where(*asked)) or 0
    more = _cursor(found[size - 1], which, order) if len(found) > size else None
    return QueuePage(tuple(found[:size]), total, more)


def read_queue_row(connection: sql.Connection, alert_id: str, now: datetime) -> QueueRow:
    """One alert's; NotThere without one."""
    found = read_queue_rows(connection, _select(now).where(alerts.c.alert_id == storable(alert_id)))
    if not found:
        raise NotFound(f"there is no alert {alert_id!r}: the queue lists those there are")
    return found[0]


def read_queue_rows_by_id(
    connection: sql.Connection, alert_ids: Sequence[str], now: datetime
) -> list[QueueRow]:
    """Those of these alerts that are there, in the order given."""
    wanted = [storable(each) for each in alert_ids]
    found = {
        each.alert_id: each for each in read_queue_rows(connection, _select(now).where(ALERT_ID.in_(wanted)))
    }
    return [found[each] for each in wanted if each in found]


def read_queue_rows(connection: sql.Connection, query: sql.Select[Any]) -> list[QueueRow]:
    """What `_select`, narrowed, finds."""
    found = connection.execute(query).mappings().all()
    several = _read_multi_values(connection, [each["alert_id"] for each in found])
    return [QueueRow(**{**each, **several[each["alert_id"]]}) for each in found]


def _select(now: datetime) -> sql.Select[Any]:
    """The fields of a Row by their names, but those that an alert has several of."""
    own = ("alert_id", "sharing", "title", "principal", "human", "level", "degraded", "bank_version")
    times = ("window_start", "first_event_time", "last_event_time")
    written = sql.select(sql.func.count()).where(notes.c.alert_id == ALERT_ID).scalar_subquery()
    grown = sql.case((cases.c.decision.is_not(None) & OPEN, EVENT_COUNT - cases.c.decided_events), else_=0)
    return sql.select(
        *(alerts.c[name] for name in own + times),
        URGENCY.label("urgency"),
        alerts.c.urgency.label("own_urgency"),
        EVENT_COUNT.label("events"),
        sql.func.coalesce(cases.c.version, 0).label("version"),
        OPEN.label("open"),
        grown.label("grown"),
        ASSIGNEE.label("assignee"),
        cases.c.decision,
        written.label("notes"),
        sql.func.coalesce(hiding_suppression(now), "").label("suppressed_by"),
    ).select_from(ALERTS_WITH_CASES)


def _read_multi_values(
    connection: sql.Connection, alert_ids: Sequence[str]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Services, accounts and tactics, in the order of the alphabet."""
    table = alert_values.c
    query = sql.select(table.alert_id, table.kind, table.value).where(table.alert_id.in_(alert_ids))
    found: dict[str, dict[str, list[str]]] = {
        each: {name: [] for name in _MULTI_VALUED_FIELDS.values()} for each in alert_ids
    }
    for alert_id, kind, value in connection.execute(query):
        found[alert_id][_MULTI_VALUED_FIELDS[kind]].append(value)
    return {
        each: {name: tuple(sorted(values)) for name, values in kinds.items()} for each, kinds in found.items()
    }


# --- the place where a page ends --------------------------------------------------------------------------------------


def _order_by(order: QueueOrder) -> list[sql.ColumnElement[Any]]:
    return [column.desc() if largest else column.asc() for column, largest in ORDERS[order]]


def _after(order: QueueOrder, place: Sequence[Any]) -> Condition:
    """What comes after a place: later in the first column that differs. The first condition is what an index is asked."""
    columns = ORDERS[order]
    (first, largest), value = columns[0], place[0]
    begins = first <= value if largest else first >= value
    later = (
        sql.and_(
            *(column == place[index] for index, (column, _) in enumerate(columns[:number])),
            _after_value(*columns[number], place[number]),
        )
        for number in range(len(columns))
    )
    return begins & sql.or_(*later)


def _after_value(column: Column, largest: bool, value: Any) -> Condition:
    return column < value if largest else column > value


def _cursor(last: QueueRow, which: AlertFilter, order: QueueOrder) -> str:
    """A row's place in the order, as text that fits a URL."""
    names = {"urgency_shown": "urgency", "event_count": "events"}
    values = (getattr(last, names.get(column.name, column.name)) for column, _ in ORDERS[order])
    place = json.dumps([each.isoformat() if isinstance(each, datetime) else each for each in values])
    return base64.urlsafe_b64encode(_query_digest(which, order) + place.encode()).decode().rstrip("=")


def _parse_cursor(cursor: str, which: AlertFilter, order: QueueOrder) -> list[Any]:
    """The values of a cursor; FingerprintError for one that no page of this filter and order gave."""
    try:
        told = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if told[:8] != _query_digest(which, order):
            raise ValueError("of another filter")
        values = json.loads(told[8:])
        return [_parse_value(column, value) for (column, _), value in zip(ORDERS[order], values, strict=True)]
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise FingerprintError("no page begins there: `following` is what the page before said") from None


def _parse_value(column: Column, value: Any) -> Any:
    """As the column has them."""
    if column is ALERT_ID:
        return storable(str(value))
    if isinstance(value, str):
        return datetime.fromisoformat(value).astimezone(UTC)
    if not isinstance(value, int) or abs(value) >= 2**31:
        raise ValueError("no number that a column may have")
    return value


def _query_digest(which: AlertFilter, order: QueueOrder) -> bytes:
    """Of which filter and order a cursor is, 8 bytes."""
    return blake2b(repr((which, order)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
