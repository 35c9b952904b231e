"""The formats by name.

Example:
    >>> body("ocsf", News(alert))
    b'{"category_uid":2,"category_name":"Findings", ...}'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fingerprint.delivery.formats import csv, ecs, json_lines, ocsf, slack
from fingerprint.delivery.formats.text import to_json_line
from fingerprint.delivery.notification import Notification

Formatter = Callable[[Notification], dict[str, Any]]

NOTIFICATION_FORMATS: Mapping[str, Formatter] = {  # to a receiver, one alert at a time
    "json": json_lines.json_document,
    "ecs": ecs.ecs_document,
    "ocsf": ocsf.ocsf_finding,
    "slack": slack.slack_message,
}
EXPORT_FORMATS: Mapping[str, Formatter] = {  # to a file, one alert a line
    "jsonl": json_lines.full_json_document,
    "ecs": ecs.ecs_document,
    "ocsf": ocsf.ocsf_finding,
}


def encode_notification(format: str, notification: Notification) -> bytes:
    """What one receiver is sent: JSON in ASCII."""
    return to_json_line(NOTIFICATION_FORMATS[format](notification))


def encode_export(format: str, notifications: Iterable[Notification]) -> Iterator[bytes]:
    """A file, piece by piece: a line of JSON an alert, or a header and a row an alert."""
    if format == "csv":
        yield csv.csv_header()
        yield from csv.csv_lines(notifications)
        return
    document = EXPORT_FORMATS[format]
    for news in notifications:
        yield to_json_line(document(news)) + b"\n"
