"""Attacks that analysts confirmed, as records: what a new bank must still find.

Example:
    >>> with engine.begin() as connection:
    ...     {alert_id: len(records) for alert_id, records in confirmed(connection).items()}
    {'397edb7b6806': 34}
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.store import dispositions
from fingerprint.store import schema as tables

MAX_ALERTS = 200  # the newest
MAX_EVENTS_PER_ALERT = 100  # of one, the first
ALERTS_PER_QUERY = 50  # alerts of one query


def read_confirmed_attacks(connection: sql.Connection) -> dict[str, list[bytes]]:
    """By alert that stands as a true positive, the newest first: the records of its first events, as far as they are kept."""
    true = {
        name
        for name, word in dispositions.read_current_decisions(connection).items()
        if word == "true_positive"
    }
    table = tables.alerts.c
    newest = sql.select(table.alert_id).order_by(table.last_event_time.desc(), table.alert_id)
    ids = [each for each in connection.scalars(newest) if each in true][:MAX_ALERTS] if true else []
    found: dict[str, list[bytes]] = {each: [] for each in ids}
    events = tables.alert_events.c
    for start in range(0, len(ids), ALERTS_PER_QUERY):
        query = sql.select(events.alert_id, events.raw).where(
            events.alert_id.in_(ids[start : start + ALERTS_PER_QUERY]), events.raw != ""
        )
        for alert_id, raw in connection.execute(query.order_by(events.event_time, events.event_id)):
            if len(found[alert_id]) < MAX_EVENTS_PER_ALERT:
                found[alert_id].append(raw.encode(errors="replace"))
    return {name: records for name, records in found.items() if records}
