"""Conditions of a filter on the tables `alerts` and `cases`, joined.

Example:
    >>> query = sql.select(alerts.c.alert_id).select_from(ALERTS_WITH_CASES)
    >>> query.where(*filter_conditions(AlertFilter(status="open", service="iam"), now))

The store has no column for open alerts: an alert is open unless a decision covers all of its events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta

import sqlalchemy as sql

from fingerprint.core.alert_query import asks_status
from fingerprint.core.case import AlertFilter, CaseStatus, Within
from fingerprint.core.sanitize import index_key, storable
from fingerprint.store.query_conditions import CLOSED, IN_PROGRESS, OPEN, query_conditions
from fingerprint.store.schema import Condition, alert_values, alerts, cases
from fingerprint.store.suppression_hits import is_hidden

ALERTS_WITH_CASES = alerts.outerjoin(cases, cases.c.alert_id == alerts.c.alert_id)
ASSIGNEE = sql.func.coalesce(cases.c.assignee, "")
STATUS_CONDITIONS: Mapping[CaseStatus, Sequence[Condition]] = {
    "open": [OPEN],
    "new": [OPEN, ~IN_PROGRESS],
    "in_progress": [OPEN, IN_PROGRESS],
    "closed": [CLOSED],
    "all": [],
}
AGES: Mapping[Within, timedelta] = {
    "1h": timedelta(hours=1),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}


def filter_conditions(alert_filter: AlertFilter, now: datetime, many: bool = False) -> list[Condition]:
    """Return all conditions of a filter. With `many`, they are written for a page of a filter with many alerts.

    If the filter's query asks for a status, the default status `open` is ignored.
    """
    shown = is_hidden(now) if alert_filter.suppressed else ~is_hidden(now)
    status = alert_filter.status
    if status == "open" and asks_status(alert_filter.q):
        status = "all"  # the query names the status, and `status:closed` would find nothing among open alerts
    return [*STATUS_CONDITIONS[status], *property_conditions(alert_filter, now, many), shown]


def property_conditions(alert_filter: AlertFilter, now: datetime, many: bool = False) -> list[Condition]:
    """Return the conditions besides status and suppression."""
    found = [alerts.c.urgency_shown >= alert_filter.least_urgency] if alert_filter.least_urgency > 0 else []
    found += [alerts.c.urgency_shown <= alert_filter.most_urgency] if alert_filter.most_urgency < 100 else []
    return [
        *found,
        *_equality_conditions(alert_filter),
        *_multi_value_conditions(alert_filter),
        *_time_conditions(alert_filter, now),
        *query_conditions(alert_filter.q, many),
    ]


def _equality_conditions(alert_filter: AlertFilter) -> Iterator[Condition]:
    if alert_filter.principal:
        yield alerts.c.principal == storable(alert_filter.principal)
    if alert_filter.level is not None:
        yield alerts.c.level == alert_filter.level
    if alert_filter.assignee is not None:
        yield storable(alert_filter.assignee) == ASSIGNEE
    if alert_filter.decision is not None:
        yield cases.c.decision == alert_filter.decision


def _multi_value_conditions(alert_filter: AlertFilter) -> Iterator[Condition]:
    """Yield conditions on fields of which an alert has several values.

    They are checked alert by alert, so a service that nearly all alerts have costs as much as a rare one. A list of its alerts
    would be long.
    """
    for kind in ("service", "account", "tactic"):
        if value := getattr(alert_filter, kind):
            table = alert_values.c
            own = (
                (table.alert_id == alerts.c.alert_id)
                & (table.kind == kind)
                & (table.value == index_key(value))
            )
            yield sql.exists(sql.select(table.alert_id).where(own))


def _time_conditions(alert_filter: AlertFilter, now: datetime) -> Iterator[Condition]:
    if alert_filter.within is not None:
        yield alerts.c.last_event_time >= now - AGES[alert_filter.within]
    if alert_filter.since is not None:
        yield alerts.c.last_event_time >= alert_filter.since
    if alert_filter.until is not None:
        yield alerts.c.first_event_time <= alert_filter.until
    if alert_filter.day is not None:
        yield alerts.c.last_event_time >= datetime.combine(alert_filter.day, time.min, UTC)
        yield alerts.c.last_event_time <= datetime.combine(alert_filter.day, time.max, UTC)
