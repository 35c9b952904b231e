"""The formats by name.

Example:
    >>> body("ocsf", News(alert))
    b'{"category_uid":2,"category_name":"Findings", ...}'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fingerprint.delivery.formats import csv, ecs, json_lines, ocsf, slack
from fingerprint.delivery.formats.text import line
from fingerprint.delivery.notification import News

Document = Callable[[News], dict[str, Any]]

TOLD: Mapping[str, Document] = {  # to a receiver, one alert at a time
    "json": json_lines.document,
    "ecs": ecs.document,
    "ocsf": ocsf.finding,
    "slack": slack.message,
}
EXPORTED: Mapping[str, Document] = {  # to a file, one alert a line
    "jsonl": json_lines.whole,
    "ecs": ecs.document,
    "ocsf": ocsf.finding,
}


def body(format: str, news: News) -> bytes:
    """What one receiver is sent: JSON in ASCII."""
    return line(TOLD[format](news))


def exported(format: str, told: Iterable[News]) -> Iterator[bytes]:
    """A file, piece by piece: a line of JSON an alert, or a header and a row an alert."""
    if format == "csv":
        yield csv.header()
        yield from csv.rows(told)
        return
    document = EXPORTED[format]
    for news in told:
        yield line(document(news)) + b"\n"
