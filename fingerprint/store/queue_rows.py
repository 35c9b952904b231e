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

from fingerprint.core.alert import FingerprintError, NotThere
from fingerprint.core.case import LARGEST_PAGE, Filter, Order, Page, Row
from fingerprint.core.sanitize import storable
from fingerprint.store.filters import ASSIGNEE, OPEN, WORKED, Condition, conditions
from fingerprint.store.queue_tables import alert_values, cases, notes
from fingerprint.store.schema import alerts
from fingerprint.store.suppressions import hider

Column = sql.Column[Any]

URGENCY, FIRST, LAST, EVENTS, NAME = (
    alerts.c[name]
    for name in ("urgency_shown", "first_event_time", "last_event_time", "event_count", "alert_id")
)
ORDERS: dict[Order, tuple[tuple[Column, bool], ...]] = {  # with True the largest comes first
    "urgency": ((URGENCY, True), (FIRST, False), (NAME, False)),
    "newest": ((LAST, True), (NAME, False)),
    "oldest": ((FIRST, False), (NAME, False)),
    "events": ((EVENTS, True), (FIRST, False), (NAME, False)),
}
_SEVERAL = {"service": "services", "account": "accounts", "tactic": "tactics"}


def page(
    connection: sql.Connection, which: Filter, order: Order, size: int, following: str | None, now: datetime
) -> Page:
    """FingerprintError for a `following` that no page of this filter and order gave, or a size beyond LARGEST_PAGE."""
    if not 0 < size <= LARGEST_PAGE:
        raise FingerprintError(f"a page has 1 to {LARGEST_PAGE} rows, not {size}")
    asked = conditions(which, now)
    query = _select(now).where(*asked).order_by(*_sorted(order)).limit(size + 1)
    query = query if following is None else query.where(_after(order, _place(following, which, order)))
    found = rows(connection, query)
    total = connection.scalar(sql.select(sql.func.count()).select_from(WORKED).where(*asked)) or 0
    more = _cursor(found[size - 1], which, order) if len(found) > size else None
    return Page(tuple(found[:size]), total, more)


def row(connection: sql.Connection, alert_id: str, now: datetime) -> Row:
    """One alert's; NotThere without one."""
    found = rows(connection, _select(now).where(alerts.c.alert_id == storable(alert_id)))
    if not found:
        raise NotThere(f"there is no alert {alert_id!r}: the queue lists those there are")
    return found[0]


def among(connection: sql.Connection, alert_ids: Sequence[str], now: datetime) -> list[Row]:
    """Those of these alerts that are there, in the order given."""
    wanted = [storable(each) for each in alert_ids]
    found = {each.alert_id: each for each in rows(connection, _select(now).where(NAME.in_(wanted)))}
    return [found[each] for each in wanted if each in found]


def rows(connection: sql.Connection, query: sql.Select[Any]) -> list[Row]:
    """What `_select`, narrowed, finds."""
    found = connection.execute(query).mappings().all()
    several = _several(connection, [each["alert_id"] for each in found])
    return [Row(**{**each, **several[each["alert_id"]]}) for each in found]


def _select(now: datetime) -> sql.Select[Any]:
    """The fields of a Row by their names, but those that an alert has several of."""
    own = ("alert_id", "sharing", "title", "principal", "human", "level", "degraded", "bank_version")
    times = ("window_start", "first_event_time", "last_event_time")
    written = sql.select(sql.func.count()).where(notes.c.alert_id == NAME).scalar_subquery()
    grown = sql.case((cases.c.decision.is_not(None) & OPEN, EVENTS - cases.c.decided_events), else_=0)
    return sql.select(
        *(alerts.c[name] for name in own + times),
        URGENCY.label("urgency"),
        alerts.c.urgency.label("own_urgency"),
        EVENTS.label("events"),
        sql.func.coalesce(cases.c.version, 0).label("version"),
        OPEN.label("open"),
        grown.label("grown"),
        ASSIGNEE.label("assignee"),
        cases.c.decision,
        written.label("notes"),
        sql.func.coalesce(hider(now), "").label("suppressed_by"),
    ).select_from(WORKED)


def _several(connection: sql.Connection, alert_ids: Sequence[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Services, accounts and tactics, in the order of the alphabet."""
    table = alert_values.c
    query = sql.select(table.alert_id, table.kind, table.value).where(table.alert_id.in_(alert_ids))
    found: dict[str, dict[str, list[str]]] = {
        each: {name: [] for name in _SEVERAL.values()} for each in alert_ids
    }
    for alert_id, kind, value in connection.execute(query):
        found[alert_id][_SEVERAL[kind]].append(value)
    return {
        each: {name: tuple(sorted(values)) for name, values in kinds.items()} for each, kinds in found.items()
    }


# --- the place where a page ends --------------------------------------------------------------------------------------


def _sorted(order: Order) -> list[sql.ColumnElement[Any]]:
    return [column.desc() if largest else column.asc() for column, largest in ORDERS[order]]


def _after(order: Order, place: Sequence[Any]) -> Condition:
    """What comes after a place: later in the first column that differs. The first condition is what an index is asked."""
    columns = ORDERS[order]
    (first, largest), value = columns[0], place[0]
    begins = first <= value if largest else first >= value
    later = (
        sql.and_(
            *(column == place[index] for index, (column, _) in enumerate(columns[:number])),
            _beyond(*columns[number], place[number]),
        )
        for number in range(len(columns))
    )
    return begins & sql.or_(*later)


def _beyond(column: Column, largest: bool, value: Any) -> Condition:
    return column < value if largest else column > value


def _cursor(last: Row, which: Filter, order: Order) -> str:
    """A row's place in the order, as text that fits a URL."""
    names = {"urgency_shown": "urgency", "event_count": "events"}
    values = (getattr(last, names.get(column.name, column.name)) for column, _ in ORDERS[order])
    place = json.dumps([each.isoformat() if isinstance(each, datetime) else each for each in values])
    return base64.urlsafe_b64encode(_mark(which, order) + place.encode()).decode().rstrip("=")


def _place(following: str, which: Filter, order: Order) -> list[Any]:
    """The values of a cursor; FingerprintError for one that no page of this filter and order gave."""
    try:
        told = base64.b64decode(following + "=" * (-len(following) % 4), altchars=b"-_", validate=True)
        if told[:8] != _mark(which, order):
            raise ValueError("of another filter")
        values = json.loads(told[8:])
        return [_value(column, value) for (column, _), value in zip(ORDERS[order], values, strict=True)]
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise FingerprintError("no page begins there: `following` is what the page before said") from None


def _value(column: Column, value: Any) -> Any:
    """As the column has them."""
    if column is NAME:
        return storable(str(value))
    if isinstance(value, str):
        return datetime.fromisoformat(value).astimezone(UTC)
    if not isinstance(value, int) or abs(value) >= 2**31:
        raise ValueError("no number that a column may have")
    return value


def _mark(which: Filter, order: Order) -> bytes:
    """Of which filter and order a cursor is, 8 bytes."""
    return blake2b(repr((which, order)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
