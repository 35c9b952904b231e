"""An alert in the house's own words, one JSON object: what `kafka.alerts_topic` carries, with what happened and how it stands.

Example:
    >>> document(News(alert, "decided", said))["decision"]
    'benign'
"""

from __future__ import annotations

from typing import Any

import msgspec

from fingerprint.delivery.formats.text import truncate_texts
from fingerprint.delivery.notification import Notification

JSON_SCHEMA_VERSION = 1


def json_document(notification: Notification) -> dict[str, Any]:
    """As it is told: its newest events without their records, every text bounded."""
    fields = msgspec.to_builtins(notification.alert)
    events = [{**event, "raw": None} for event in fields["events"][-len(notification.newest_events) :]]
    for event in events:
        del event["raw"]
    told: dict[str, Any] = truncate_texts(_build_document(notification, fields | {"events": events}))
    return told


def full_json_document(notification: Notification) -> dict[str, Any]:
    """Nothing left out and nothing cut: all events with their records, as text."""
    return _build_document(notification, msgspec.to_builtins(notification.alert))


def _build_document(notification: Notification, fields: dict[str, Any]) -> dict[str, Any]:
    said = notification.disposition
    return {
        "schema": JSON_SCHEMA_VERSION,
        "happened": notification.change,
        **fields,
        "event_count": len(notification.alert.events),
        "decision": notification.decision or "open",
        "decided": msgspec.to_builtins(said) if said else None,
        "link": notification.link,
    }
