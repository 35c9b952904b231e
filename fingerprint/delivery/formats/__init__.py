"""Formats of alerts for receivers and exports, by name.

Example:
    >>> encode_notification("ocsf", Notification(alert))
    b'{"category_uid":2,"category_name":"Findings", ...}'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from fingerprint.delivery.formats import csv, ecs, json_lines, ocsf, slack
from fingerprint.delivery.formats.text import to_json_line
from fingerprint.delivery.notification import Notification

PIECE_BYTES = 1 << 16

Formatter = Callable[[Notification], dict[str, Any]]

NOTIFICATION_FORMATS: Mapping[str, Formatter] = {  # to a receiver, one alert at a time
    "json": json_lines.json_document,
    "ecs": ecs.ecs_document,
    "ocsf": ocsf.ocsf_finding,
    "slack": slack.slack_message,
}


def _line_of(document: Formatter, notification: Notification) -> Iterator[bytes]:
    yield to_json_line(document(notification)) + b"\n"


EXPORT_FORMATS: Mapping[str, Callable[[Notification], Iterator[bytes]]] = {  # to a file, one alert a line
    "jsonl": json_lines.full_json_pieces,
    "ecs": partial(_line_of, ecs.ecs_document),
    "ocsf": partial(_line_of, ocsf.ocsf_finding),
}


def encode_notification(format: str, notification: Notification) -> bytes:
    """Return the body for a receiver: JSON in ASCII."""
    return to_json_line(NOTIFICATION_FORMATS[format](notification))


def encode_export(format: str, notifications: Iterable[Notification]) -> Iterator[bytes]:
    """Yield a file in pieces: a line of JSON for each alert, or a header and a row for each alert."""
    if format == "csv":
        yield csv.csv_header()
        yield from csv.csv_lines(notifications)
        return
    pieces = EXPORT_FORMATS[format]
    for notification in notifications:
        yield from _joined(pieces(notification))


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces of PIECE_BYTES or more, but for the last: each is a step of a server's threads."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
