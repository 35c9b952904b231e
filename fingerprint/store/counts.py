"""How many alerts a filter finds, by what stands above the queue, and by up to three fields.

Example:
    >>> with engine.connect() as connection:
    ...     counts(connection, Filter(service="iam"), now)["critical"]
    ...     groups(connection, Filter(), ["principal", "tactic"], 200, now)[0].values
    ('123456789012:user/bob', 'Persistence')
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sql

from fingerprint.core.alert import SEVERITY_LEVELS, FingerprintError
from fingerprint.core.case import MAX_GROUP_FIELDS, AlertFilter, AlertGroup, GroupField
from fingerprint.store.filters import (
    ALERTS_WITH_CASES,
    ASSIGNEE,
    CLOSED,
    Condition,
    filter_conditions,
    property_conditions,
)
from fingerprint.store.queue_tables import alert_values
from fingerprint.store.schema import alerts
from fingerprint.store.suppressions import is_hidden

MULTI_VALUED_FIELDS = ("service", "account", "tactic")  # fields of which an alert has several


def count_matching_alerts(connection: sql.Connection, which: AlertFilter, now: datetime) -> dict[str, int]:
    """What `ports_queue` says."""
    state = sql.case(
        (is_hidden(now), "suppressed"), (CLOSED, "closed"), (ASSIGNEE == "", "unassigned"), else_="assigned"
    )
    at_least = (_count_where(alerts.c.urgency_shown >= least) for least, _ in SEVERITY_LEVELS)
    query = (
        sql.select(state.label("state"), *at_least)
        .select_from(ALERTS_WITH_CASES)
        .where(*property_conditions(which))
    )
    found = {name: list(map(int, many)) for name, *many in connection.execute(query.group_by("state"))}
    none = [0] * len(
        SEVERITY_LEVELS
    )  # of a state: how many of at least the urgency of each band, so the last are all
    unassigned, assigned = found.get("unassigned", none), found.get("assigned", none)
    left = [one + other for one, other in zip(unassigned, assigned, strict=True)]
    of_band = {
        word: count - above
        for (_, word), count, above in zip(SEVERITY_LEVELS, left, [0, *left], strict=False)
    }
    closed, suppressed = (found.get(name, none)[-1] for name in ("closed", "suppressed"))
    return {
        "open": left[-1],
        "closed": closed,
        "suppressed": suppressed,
        "unassigned": unassigned[-1],
    } | of_band


def count_alerts_by(
    connection: sql.Connection, which: AlertFilter, by: Sequence[GroupField], limit: int, now: datetime
) -> list[AlertGroup]:
    """FingerprintError for no field, the same twice, or more than three."""
    if not 0 < len(set(by)) == len(by) <= MAX_GROUP_FIELDS:
        raise FingerprintError(f"alerts are grouped by 1 to {MAX_GROUP_FIELDS} different fields")
    source: sql.FromClause = ALERTS_WITH_CASES
    for kind in by:
        source = _join_values(source, kind) if kind in MULTI_VALUED_FIELDS else source
    fields = [_group_column(connection, kind).label(f"by_{place}") for place, kind in enumerate(by)]
    most, many = sql.func.max(alerts.c.urgency_shown), sql.func.count()
    span = sql.func.min(alerts.c.first_event_time), sql.func.max(alerts.c.last_event_time)
    query = (
        sql.select(*fields, many, most, *span)
        .select_from(source)
        .where(*filter_conditions(which, now))
        .group_by(*fields)
        .order_by(most.desc(), many.desc(), *fields)
        .limit(max(0, limit))
    )
    found = connection.execute(query).all()
    return [_to_group(row, len(by)) for row in found]


def _to_group(row: Sequence[Any], fields: int) -> AlertGroup:
    many, most, first, last = row[fields:]
    return AlertGroup(tuple(map(str, row[:fields])), many, most, first, last)


def _count_where(condition: Condition) -> sql.ColumnElement[Any]:
    return sql.func.sum(sql.case((condition, 1), else_=0))


def _join_values(source: sql.FromClause, kind: GroupField) -> sql.FromClause:
    """Alerts with each of their values of a kind; once with none, where they have none."""
    values = _values_of_kind(kind)
    own = (values.c.alert_id == alerts.c.alert_id) & (values.c.kind == kind)
    return source.outerjoin(values, own)


@cache
def _values_of_kind(kind: GroupField) -> sql.FromClause:
    """The same one wherever a query names it."""
    return alert_values.alias(f"of_{kind}")


def _group_column(connection: sql.Connection, kind: GroupField) -> sql.ColumnElement[str]:
    """What alerts are grouped by; a day is that of the last event, in UTC."""
    if kind in MULTI_VALUED_FIELDS:
        return sql.func.coalesce(_values_of_kind(kind).c.value, "")
    if kind == "assignee":
        return ASSIGNEE
    if kind != "day":
        return alerts.c[kind]
    if connection.dialect.name == "sqlite":
        return sql.func.strftime("%Y-%m-%d", alerts.c.last_event_time)
    return sql.func.to_char(alerts.c.last_event_time, "YYYY-MM-DD")
