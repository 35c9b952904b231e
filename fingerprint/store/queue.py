"""The alert queue: pages of rows, counts and groups of the alerts that a filter finds.

Example:
    >>> first = store.queue.page(AlertFilter(status="open"), order="urgency", size=50)
    >>> second = store.queue.page(AlertFilter(status="open"), order="urgency", size=50, cursor=first.following)
    >>> store.queue.counts(AlertFilter(service="iam"))["critical"]
    2

Pages begin after the last row's position in the order (keyset), not after a number of rows. So a new alert does not push a row
onto the next page, and the hundredth page costs as much as the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sql

from fingerprint.core.alert import SEVERITY_LEVELS
from fingerprint.core.case import (
    MAX_GROUP_FIELDS,
    MAX_PAGE_SIZE,
    MAX_TREND_DAYS,
    AlertFilter,
    AlertGroup,
    DayCount,
    GroupField,
    QueueOrder,
    QueuePage,
    QueueRow,
)
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import storable
from fingerprint.store import page_cursor
from fingerprint.store.database import Repository, no_such_alert, reads
from fingerprint.store.filters import (
    ALERTS_WITH_CASES,
    ASSIGNEE,
    filter_conditions,
    property_conditions,
)
from fingerprint.store.query_conditions import CLOSED, IN_PROGRESS, OPEN
from fingerprint.store.schema import (
    UtcDateTime,
    alert_surprises,
    alert_values,
    alerts,
    cases,
    incident_alerts,
    incidents,
    notes,
)
from fingerprint.store.suggestions import suggest_values
from fingerprint.store.suppression_hits import hiding_suppression, is_hidden

Column = sql.Column[Any]

MANY_ALERTS = (
    2_000  # if a filter finds so many of 100,000 alerts, a page of 50 is full after reading some 2,500
)
STRONGEST_SURPRISES = 3  # of an alert; similar alerts share at least one of them
URGENCY, FIRST_EVENT_TIME, LAST_EVENT_TIME, EVENT_COUNT, ALERT_ID = (
    alerts.c[name]
    for name in ("urgency_shown", "first_event_time", "last_event_time", "event_count", "alert_id")
)
ORDERS: dict[QueueOrder, tuple[tuple[Column, bool], ...]] = {  # with True the largest comes first
    "urgency": ((URGENCY, True), (FIRST_EVENT_TIME, False), (ALERT_ID, False)),
    "newest": ((LAST_EVENT_TIME, True), (ALERT_ID, False)),
    "oldest": ((FIRST_EVENT_TIME, False), (ALERT_ID, False)),
    "events": ((EVENT_COUNT, True), (FIRST_EVENT_TIME, False), (ALERT_ID, False)),
    # The exact reverse of an order above, so that its index can be read backwards.
    "lowest": ((URGENCY, False), (FIRST_EVENT_TIME, True), (ALERT_ID, True)),
    "fewest": ((EVENT_COUNT, False), (FIRST_EVENT_TIME, True), (ALERT_ID, True)),
}
_MULTI_VALUED_FIELDS = {"service": "services", "account": "accounts", "tactic": "tactics"}
_ROW_VALUES = _MULTI_VALUED_FIELDS | {"call": "actions", "address": "addresses", "region": "regions"}


class SqlQueueRepository(Repository):
    """Rows of alerts without their events, in one of six orders."""

    @reads
    def page(
        self,
        connection: sql.Connection,
        alert_filter: AlertFilter,
        order: QueueOrder = "urgency",
        size: int = 50,
        cursor: str | None = None,
        total: int | None = None,
    ) -> QueuePage:
        """Return a page of rows and the number of all rows, which is only counted if `total` is not given.

        Raise FingerprintError for a cursor that no page of this filter and order had, or a size above MAX_PAGE_SIZE.
        """
        if not 0 < size <= MAX_PAGE_SIZE:
            raise FingerprintError(f"a page has 1 to {MAX_PAGE_SIZE} rows, not {size}")
        now = self._session.now()
        conditions = filter_conditions(alert_filter, now, many=total is not None and total >= MANY_ALERTS)
        query = _select(now).where(*conditions).order_by(*page_cursor.order_by(ORDERS[order]))
        search = (alert_filter, order)
        if cursor is not None:
            place = page_cursor.decode_cursor(cursor, ORDERS[order], search)
            query = query.where(page_cursor.after(ORDERS[order], place))
        if total == 0:
            return QueuePage((), 0, None)
        found = _read_rows(connection, query.limit(size + 1))
        if total is None:
            count = sql.select(sql.func.count()).select_from(ALERTS_WITH_CASES).where(*conditions)
            total = connection.scalar(count) or 0
        more = (
            page_cursor.encode_cursor(_position(found[size - 1], order), search)
            if len(found) > size
            else None
        )
        return QueuePage(tuple(found[:size]), total, more)

    @reads
    def first_rows(
        self,
        connection: sql.Connection,
        alert_filter: AlertFilter,
        order: QueueOrder = "urgency",
        size: int = 50,
    ) -> list[QueueRow]:
        """Return the first rows of a filter without counting, which would read every alert."""
        now = self._session.now()
        query = _select(now).where(*filter_conditions(alert_filter, now))
        return _read_rows(connection, query.order_by(*page_cursor.order_by(ORDERS[order])).limit(size))

    @reads
    def ids(
        self, connection: sql.Connection, alert_filter: AlertFilter, order: QueueOrder = "urgency"
    ) -> list[str]:
        """Return the ids of all alerts of a filter at one point in time, in the given order."""
        conditions = filter_conditions(alert_filter, self._session.now())
        query = sql.select(ALERT_ID).select_from(ALERTS_WITH_CASES).where(*conditions)
        return list(connection.scalars(query.order_by(*page_cursor.order_by(ORDERS[order]))))

    @reads
    def row(self, connection: sql.Connection, alert_id: str) -> QueueRow:
        """Return one alert's row by its whole id. Raise NotFound without one."""
        query = _select(self._session.now()).where(storable(alert_id) == ALERT_ID)
        found = _read_rows(connection, query)
        if not found:
            raise no_such_alert(alert_id)
        return found[0]

    @reads
    def rows(self, connection: sql.Connection, alert_ids: Sequence[str]) -> list[QueueRow]:
        """Return the rows of these alerts in the given order, without alerts that do not exist."""
        return read_queue_rows(connection, alert_ids, self._session.now())

    @reads
    def similar(self, connection: sql.Connection, alert_id: str, limit: int = 10) -> list[QueueRow]:
        """Return alerts that share one of the strongest surprises: those of the principal first, then the newest.

        Raise NotFound without the alert.
        """
        own = storable(alert_id)
        principal = connection.scalar(sql.select(alerts.c.principal).where(own == ALERT_ID))
        if principal is None:
            raise no_such_alert(alert_id)
        limit = max(0, limit)
        related = _of_principal(connection, own, principal, limit)
        newest = _newest_sharing(connection, own, limit + len(related))
        others = (each for each in newest if each not in related)
        ids = [*related, *others][:limit]
        return read_queue_rows(connection, ids, self._session.now())

    @reads
    def counts(self, connection: sql.Connection, alert_filter: AlertFilter) -> dict[str, int]:
        """Return the numbers of open, closed and suppressed alerts; the filter's status is ignored.

        The open ones are also counted by new, in progress, unassigned, and by severity.
        """
        hidden = (is_hidden(self._session.now()), "suppressed")
        state = sql.case(hidden, (CLOSED, "closed"), (ASSIGNEE == "", "unassigned"), else_="assigned")
        started = sql.func.sum(sql.case((IN_PROGRESS, 1), else_=0))
        query = (
            sql.select(state.label("state"), started, *_severity_counts())
            .select_from(ALERTS_WITH_CASES)
            .where(*property_conditions(alert_filter, self._session.now()))
        )
        found = {name: list(map(int, many)) for name, *many in connection.execute(query.group_by("state"))}
        return _to_counts(found)

    @reads
    def daily_counts(
        self, connection: sql.Connection, alert_filter: AlertFilter, days: int = 30
    ) -> list[DayCount]:
        """Return counts by day of the last event and by severity, the oldest day first, including days without an alert.

        The times of the filter are ignored. The last day is today, or the day of the newest alert if the store has no alert from
        these days. Raise FingerprintError for more than MAX_TREND_DAYS.
        """
        if not 0 < days <= MAX_TREND_DAYS:
            raise FingerprintError(f"alerts are counted over 1 to {MAX_TREND_DAYS} days, not {days}")
        now = self._session.now()
        first = _first_day(connection, now, days)
        start = datetime.combine(first, datetime.min.time(), UTC)
        within = start <= LAST_EVENT_TIME, start + timedelta(days=days) > LAST_EVENT_TIME
        at_any_time = replace(alert_filter, since=None, until=None, within=None, day=None)
        day = _day_column(connection).label("day")
        query = (
            sql.select(day, *_severity_counts())
            .select_from(ALERTS_WITH_CASES)
            .where(*within, *filter_conditions(at_any_time, now))
            .group_by(day)
        )
        found = {name: _split_by_severity(many) for name, *many in connection.execute(query)}
        dates = (first + timedelta(days=number) for number in range(days))
        return [DayCount(each, found.get(each.isoformat(), (0,) * len(SEVERITY_LEVELS))) for each in dates]

    @reads
    def groups(
        self,
        connection: sql.Connection,
        alert_filter: AlertFilter,
        by: Sequence[GroupField],
        limit: int = 200,
    ) -> list[AlertGroup]:
        """Return groups by one to three fields, the one with the most urgent alert first.

        An alert of two services is in two groups. Raise FingerprintError for no field, a repeated one, or too many.
        """
        if not 0 < len(set(by)) == len(by) <= MAX_GROUP_FIELDS:
            raise FingerprintError(f"alerts are grouped by 1 to {MAX_GROUP_FIELDS} different fields")
        source: sql.FromClause = ALERTS_WITH_CASES
        for kind in by:
            source = _join_values(source, kind) if kind in _MULTI_VALUED_FIELDS else source
        fields = [_group_column(connection, kind).label(f"by_{index}") for index, kind in enumerate(by)]
        most, many = sql.func.max(URGENCY), sql.func.count()
        span = sql.func.min(FIRST_EVENT_TIME), sql.func.max(LAST_EVENT_TIME)
        query = (
            sql.select(*fields, many, most, *span, *_severity_counts())
            .select_from(source)
            .where(*filter_conditions(alert_filter, self._session.now()))
            .group_by(*fields)
            .order_by(most.desc(), many.desc(), *fields)
            .limit(max(0, limit))
        )
        return [_to_group(row, len(by)) for row in connection.execute(query).all()]

    @reads
    def suggest(self, connection: sql.Connection, field: str, begins: str, limit: int = 10) -> list[str]:
        """Return values of a field of the query language that begin so, in alphabetical order."""
        return suggest_values(connection, field, begins, limit)


def read_queue_rows(connection: sql.Connection, alert_ids: Sequence[str], now: datetime) -> list[QueueRow]:
    """Return the rows of these alerts in the given order, without alerts that do not exist."""
    names = [storable(alert_id) for alert_id in alert_ids]
    rows = _read_rows(connection, _select(now).where(ALERT_ID.in_(names)))
    found = {row.alert_id: row for row in rows}
    return [found[alert_id] for alert_id in names if alert_id in found]


# --- rows -------------------------------------------------------------------------------------------------------------


def _select(now: datetime) -> sql.Select[Any]:
    """Return a query for the fields of a QueueRow, except those with several values."""
    own = (
        "alert_id",
        "sharing",
        "title",
        "principal",
        "human",
        "level",
        "degraded",
        "bank_version",
        "rarity",
        "impact",
        "gravest_action",
    )
    times = ("window_start", "first_event_time", "last_event_time")
    written = sql.select(sql.func.count()).where(notes.c.alert_id == ALERT_ID).scalar_subquery()
    incident = sql.select(incident_alerts.c.incident_id).where(incident_alerts.c.alert_id == ALERT_ID)
    of_incident = incidents.c.incident_id == incident_alerts.c.incident_id
    size = (
        sql.select(incidents.c.alerts)
        .join_from(incident_alerts, incidents, of_incident)
        .where(incident_alerts.c.alert_id == ALERT_ID)
    )
    grown = sql.case((cases.c.decision.is_not(None) & OPEN, EVENT_COUNT - cases.c.decided_events), else_=0)
    return sql.select(
        *(alerts.c[name] for name in own + times),
        URGENCY.label("urgency"),
        alerts.c.urgency.label("own_urgency"),
        EVENT_COUNT.label("events"),
        sql.func.coalesce(cases.c.version, 0).label("version"),
        sql.func.coalesce(alerts.c.stored_at, LAST_EVENT_TIME, type_=UtcDateTime).label("stored_at"),
        sql.func.coalesce(incident.scalar_subquery(), ALERT_ID).label("incident_id"),
        sql.func.coalesce(size.scalar_subquery(), 1).label("incident_size"),
        OPEN.label("open"),
        (OPEN & IN_PROGRESS).label("in_progress"),
        grown.label("grown"),
        ASSIGNEE.label("assignee"),
        cases.c.decision,
        written.label("notes"),
        sql.func.coalesce(hiding_suppression(now), "").label("suppressed_by"),
    ).select_from(ALERTS_WITH_CASES)


def _read_rows(connection: sql.Connection, query: sql.Select[Any]) -> list[QueueRow]:
    """Return the rows of a query made from `_select`."""
    found = connection.execute(query).mappings().all()
    several = _read_multi_values(connection, [row["alert_id"] for row in found])
    return [QueueRow(**{**row, **several[row["alert_id"]]}) for row in found]


def _read_multi_values(
    connection: sql.Connection, alert_ids: Sequence[str]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the fields of queue rows that have several values, by alert; values are in alphabetical order."""
    table = alert_values.c
    query = sql.select(table.alert_id, table.kind, table.value).where(
        table.alert_id.in_(alert_ids), table.kind.in_(_ROW_VALUES)
    )
    found: dict[str, dict[str, list[str]]] = {
        each: {name: [] for name in _ROW_VALUES.values()} for each in alert_ids
    }
    for alert_id, kind, value in connection.execute(query):
        found[alert_id][_ROW_VALUES[kind]].append(value)
    return {
        each: {name: tuple(sorted(values)) for name, values in kinds.items()} for each, kinds in found.items()
    }


def _of_principal(connection: sql.Connection, alert_id: str, principal: str, limit: int) -> list[str]:
    """Return alerts of a principal that share one of an alert's strongest surprises, the newest first."""
    table = alert_surprises.c
    strongest = _select_strongest(alert_id)
    shares = sql.exists().where(table.alert_id == ALERT_ID, table.surprise_id.in_(strongest))
    query = sql.select(ALERT_ID).where(alerts.c.principal == principal, alerts.c.alert_id != alert_id, shares)
    return list(connection.scalars(query.order_by(LAST_EVENT_TIME.desc(), ALERT_ID).limit(limit)))


def _newest_sharing(connection: sql.Connection, alert_id: str, limit: int) -> list[str]:
    """Return alerts that share one of an alert's strongest surprises, the newest first; only few are read per surprise."""
    table = alert_surprises.c
    newest: dict[str, datetime] = {}
    for surprise in connection.scalars(_select_strongest(alert_id)).all():
        query = sql.select(table.alert_id, table.last_event_time).where(
            table.surprise_id == surprise, table.alert_id != alert_id
        )
        query = query.order_by(table.last_event_time.desc(), table.alert_id).limit(limit)
        newest.update((row[0], row[1]) for row in connection.execute(query))
    return sorted(sorted(newest), key=newest.__getitem__, reverse=True)[:limit]


def _select_strongest(alert_id: str) -> sql.Select[tuple[str]]:
    table = alert_surprises.c
    surprising = sql.select(table.surprise_id).where(table.alert_id == alert_id, table.surprise > 0)
    return surprising.order_by(table.surprise.desc(), table.rank).limit(STRONGEST_SURPRISES)


# --- counts and groups ------------------------------------------------------------------------------------------------


def _severity_counts() -> list[sql.ColumnElement[Any]]:
    """Return, for each severity, the count of alerts of that severity or above."""
    return [sql.func.sum(sql.case((least <= URGENCY, 1), else_=0)) for least, _ in SEVERITY_LEVELS]


def _split_by_severity(at_least: Sequence[Any]) -> tuple[int, ...]:
    """Return the count of each severity alone, given the counts of that severity or above."""
    counts = list(map(int, at_least))
    return tuple(count - above for count, above in zip(counts, [0, *counts], strict=False))


def _first_day(connection: sql.Connection, now: datetime, days: int) -> date:
    """Return the first of `days` days that end today, or at the newest alert if it is older than that."""
    today = now.astimezone(UTC).date()
    first = today - timedelta(days=days - 1)
    newest = connection.scalar(sql.select(sql.func.max(LAST_EVENT_TIME)))
    if newest is None or newest.date() >= first:
        return first
    return newest.date() - timedelta(days=days - 1)


def _to_counts(found: dict[str, list[int]]) -> dict[str, int]:
    """Return counts by name, given for each state the number in progress and the numbers of at least each severity."""
    none = [0] * (1 + len(SEVERITY_LEVELS))  # the last severity is the lowest, so its count is that of all
    unassigned, assigned = found.get("unassigned", none), found.get("assigned", none)
    started, *is_open = (one + other for one, other in zip(unassigned, assigned, strict=True))
    severities = {
        name: count for (_, name), count in zip(SEVERITY_LEVELS, _split_by_severity(is_open), strict=True)
    }
    closed, suppressed = (found.get(name, none)[-1] for name in ("closed", "suppressed"))
    states = {
        "open": is_open[-1],
        "new": is_open[-1] - started,
        "in_progress": started,
        "closed": closed,
        "suppressed": suppressed,
        "unassigned": unassigned[-1],
    }
    return states | severities


def _to_group(row: Sequence[Any], fields: int) -> AlertGroup:
    many, most, first, last, *at_least = row[fields:]
    return AlertGroup(tuple(map(str, row[:fields])), many, most, first, last, _split_by_severity(at_least))


def _join_values(source: sql.FromClause, kind: GroupField) -> sql.FromClause:
    """Join alerts with their values of a kind; an alert without a value appears once."""
    values = _values_of_kind(kind)
    own = (values.c.alert_id == ALERT_ID) & (values.c.kind == kind)
    return source.outerjoin(values, own)


@cache
def _values_of_kind(kind: GroupField) -> sql.FromClause:
    """Return the alias of a kind's values, the same one in every part of a query."""
    return alert_values.alias(f"of_{kind}")


def _group_column(connection: sql.Connection, kind: GroupField) -> sql.ColumnElement[str]:
    """Return the column to group by; a day is that of the last event, in UTC."""
    if kind in _MULTI_VALUED_FIELDS:
        return sql.func.coalesce(_values_of_kind(kind).c.value, "")
    if kind == "assignee":
        return ASSIGNEE
    return _day_column(connection) if kind == "day" else alerts.c[kind]


def _day_column(connection: sql.Connection) -> sql.ColumnElement[str]:
    """Return the day of the last event as ISO text. SQLite stores times as ISO text, so its beginning is the day."""
    if connection.dialect.name == "sqlite":
        return sql.func.substr(sql.type_coerce(LAST_EVENT_TIME, sql.Text), 1, 10)
    return sql.func.to_char(LAST_EVENT_TIME, "YYYY-MM-DD")


# --- the cursor of a page ---------------------------------------------------------------------------------------------


def _position(row: QueueRow, order: QueueOrder) -> list[Any]:
    """Return a row's values in the columns that order the rows."""
    names = {"urgency_shown": "urgency", "event_count": "events"}
    return [getattr(row, names.get(column.name, column.name)) for column, _ in ORDERS[order]]
