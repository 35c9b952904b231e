"""An alert in the house's own words, one JSON object: what `kafka.alerts` carries, with what happened and how it stands.

Example:
    >>> document(News(alert, "decided", said))["decision"]
    'benign'
"""

from __future__ import annotations

from typing import Any

import msgspec

from fingerprint.delivery.formats.text import bounded
from fingerprint.delivery.notification import News

SCHEMA = 1


def document(news: News) -> dict[str, Any]:
    """As it is told: its newest events without their records, every text bounded."""
    fields = msgspec.to_builtins(news.alert)
    events = [{**event, "raw": None} for event in fields["events"][-len(news.newest) :]]
    for event in events:
        del event["raw"]
    told: dict[str, Any] = bounded(_document(news, fields | {"events": events}))
    return told


def whole(news: News) -> dict[str, Any]:
    """Nothing left out and nothing cut: all events with their records, as text."""
    return _document(news, msgspec.to_builtins(news.alert))


def _document(news: News, fields: dict[str, Any]) -> dict[str, Any]:
    said = news.said
    return {
        "schema": SCHEMA,
        "happened": news.happened,
        **fields,
        "event_count": len(news.alert.events),
        "decision": news.decision or "open",
        "decided": msgspec.to_builtins(said) if said else None,
        "link": news.link,
    }
