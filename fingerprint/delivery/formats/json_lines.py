"""An alert as one JSON object of our own schema: its message on the alerts topic with its change, decision and link.

Example:
    >>> json_document(Notification(alert, "decided", disposition))["decision"]
    'benign'
"""

from __future__ import annotations

from typing import Any

import msgspec

from fingerprint.core.alert import alert_fields
from fingerprint.delivery.formats.text import truncate_texts
from fingerprint.delivery.notification import Notification

JSON_SCHEMA_VERSION = 1


def json_document(notification: Notification) -> dict[str, Any]:
    """Return the document for a receiver: the newest events without their records, every text bounded."""
    fields = alert_fields(notification.alert)
    events = [{**event, "raw": None} for event in fields["events"][-len(notification.newest_events) :]]
    for event in (*events, *fields["supporting_events"]):
        del event["raw"]
    document: dict[str, Any] = truncate_texts(_build_document(notification, fields | {"events": events}))
    return document


def full_json_document(notification: Notification) -> dict[str, Any]:
    """Return the document for an export: all events with their records, nothing cut."""
    return _build_document(notification, alert_fields(notification.alert))


def _build_document(notification: Notification, fields: dict[str, Any]) -> dict[str, Any]:
    disposition = notification.disposition
    return {
        "schema": JSON_SCHEMA_VERSION,
        "happened": notification.change,
        **fields,
        "event_count": len(notification.alert.events),
        "decision": notification.decision or "open",
        "decided": msgspec.to_builtins(disposition) if disposition else None,
        "credential_chain": msgspec.to_builtins(notification.origin.chain),
        "other_records": [each._asdict() for each in notification.origin.other_records],
        "link": notification.link,
    }
