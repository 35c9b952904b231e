"""Alerts that show the same surprises as another.

Example:
    >>> with engine.connect() as connection:
    ...     alike(connection, "397edb7b6806", limit=10)
    ['77b0e6d1920c4f3e']
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.core.alert import NotFound
from fingerprint.core.sanitize import storable
from fingerprint.store.queue_tables import alert_surprises
from fingerprint.store.schema import alerts

STRONGEST_SURPRISES = 3  # surprises of an alert, of which another shares at least one


def find_similar_alerts(connection: sql.Connection, alert_id: str, limit: int) -> list[str]:
    """Ids of those that share one of its strongest surprises: of its principal first, then the newest. NotThere for an alert that
    is not there."""
    own = storable(alert_id)
    principal = connection.scalar(sql.select(alerts.c.principal).where(alerts.c.alert_id == own))
    if principal is None:
        raise NotFound(f"there is no alert {alert_id!r}: the queue lists those there are")
    table = alert_surprises.c
    sharing = sql.select(table.alert_id).where(table.surprise_id.in_(_select_strongest(own)))
    query = (
        sql.select(alerts.c.alert_id)
        .where(alerts.c.alert_id.in_(sharing), alerts.c.alert_id != own)
        .order_by(
            (alerts.c.principal == principal).desc(), alerts.c.last_event_time.desc(), alerts.c.alert_id
        )
        .limit(max(0, limit))
    )
    return list(connection.scalars(query))


def _select_strongest(alert_id: str) -> sql.Select[tuple[str]]:
    table = alert_surprises.c
    surprising = sql.select(table.surprise_id).where(table.alert_id == alert_id, table.surprise > 0)
    return surprising.order_by(table.surprise.desc(), table.place).limit(STRONGEST_SURPRISES)
