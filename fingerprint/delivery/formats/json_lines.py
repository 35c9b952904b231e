"""An alert as one JSON object of our own schema: its message on the alerts topic with its change, decision and link.

Example:
    >>> json_document(Notification(alert, "decided", disposition))["decision"]
    'benign'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from fingerprint.delivery.formats.text import to_json_line, truncate_texts
from fingerprint.delivery.notification import Notification

JSON_SCHEMA_VERSION = 1
RECORDS_AT_ONCE = 20  # of an alert in memory; a record has 1 MiB at most


def json_document(notification: Notification) -> dict[str, Any]:
    """Return the document for a receiver: the newest events without their records, every text bounded."""
    fields = msgspec.to_builtins(notification.alert)
    events = [{**event, "raw": None} for event in fields["events"][-len(notification.newest_events) :]]
    for event in (*events, *fields["supporting_events"]):
        del event["raw"]
    document: dict[str, Any] = truncate_texts(_build_document(notification, fields | {"events": events}))
    return document


def full_json_pieces(notification: Notification) -> Iterator[bytes]:
    """Yield the document for an export, a line in pieces: all events with their records, nothing cut.

    Few records are in memory at a time: an alert may have thousands, each as long as its attacker liked.
    """
    fields = msgspec.to_builtins(replace(notification.alert, events=()))
    opening = b"{"
    for name, value in _build_document(notification, fields).items():
        yield opening + to_json_line(name) + b":"
        if name == "events":
            yield from _event_pieces(notification)
        else:
            yield to_json_line(value)
        opening = b","
    yield b"}\n"


def _event_pieces(notification: Notification) -> Iterator[bytes]:
    events, opening = notification.alert.events, b"["
    for start in range(0, len(events), RECORDS_AT_ONCE):
        some = events[start : start + RECORDS_AT_ONCE]
        read = notification.read_records
        records = read([event.event_id for event in some]) if read else {}
        found = msgspec.to_builtins(
            [replace(each, raw=records.get(each.event_id, each.raw)) for each in some]
        )
        yield opening + b",".join(map(to_json_line, found))
        opening = b","
    yield b"]" if events else b"[]"


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
