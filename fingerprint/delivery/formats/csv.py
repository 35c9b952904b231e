"""Alerts as rows for a spreadsheet, one an alert, in which no cell is ever a formula.

Example:
    >>> safe_cell('=HYPERLINK("http://evil.example","x")')
    '\\'=HYPERLINK("http://evil.example","x")'

A cell that a spreadsheet would work out (it begins with = + - @, also as full-width characters) gets an apostrophe before it, and
so does what follows a semicolon within one, because some countries' spreadsheets cut there. All cells are quoted; what would
steer a screen is written as an escape (`sanitize.printable`). Source of the rules: OWASP, "CSV Injection".
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator

from fingerprint.core.alert import severity_of
from fingerprint.core.sanitize import printable
from fingerprint.delivery.formats.text import (
    impact_text,
    opener_texts,
    other_record_texts,
    step_text,
    truncate,
)
from fingerprint.delivery.notification import Notification, account_of, distinct_values

MAX_CELL_LENGTH = 32_000  # characters of a cell; a spreadsheet takes 32,767
COLUMNS = (
    "alert_id",
    "urgency",
    "severity",
    "rarity",
    "impact",
    "decision",
    "title",
    "principal",
    "human",
    "account",
    "first_event_time",
    "last_event_time",
    "events",
    "services",
    "actions",
    "regions",
    "source_addresses",
    "countries",
    "network_owners",
    "known_ranges",
    "resources",
    "errors",
    "scores",
    "flagged_by",
    "weak_votes",
    "supporting_actions",
    "impact_of",
    "opened_by",
    "same_call_by",
    "tactics",
    "level",
    "degraded",
    "bank_version",
    "next_steps",
    "decided_by",
    "why",
    "link",
)
_WORKED_OUT = re.compile(
    r"(?:(?<=^)|(?<=[;|]))(?=[\s\"']*[=+\-@\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b])"
)


def csv_header() -> bytes:
    """Return the line of column names."""
    return _encode_line(COLUMNS)


def csv_lines(notifications: Iterable[Notification]) -> Iterator[bytes]:
    """Yield a line for each alert: UTF-8, with the line end of RFC 4180."""
    for notification in notifications:
        yield _encode_line(csv_cells(notification))


def csv_cells(notification: Notification) -> list[str]:
    """Return the cells of an alert, in the order of COLUMNS."""
    alert, disposition = notification.alert, notification.disposition
    events, places = alert.events, notification.places()
    return [
        alert.alert_id,
        str(alert.urgency),
        severity_of(alert.urgency),
        str(alert.rarity),
        str(alert.impact),
        notification.decision or "open",
        alert.title,
        alert.principal,
        alert.human,
        account_of(alert),
        alert.first_event_time.isoformat(),
        alert.last_event_time.isoformat(),
        str(len(events)),
        _join_distinct(event.service for event in events),
        _join_distinct(f"{event.service}:{event.action}" for event in events),
        _join_distinct(event.region for event in events),
        _join_distinct(event.source_address for event in events),
        _join_distinct(place.country for place in places),
        _join_distinct(place.owner for place in places),
        _join_distinct(name for place in places for name in place.ranges),
        _join_distinct(event.resource for event in events),
        _join_distinct(event.error_code for event in events),
        _join_distinct(f"{name} {z:.1f}" for name, z in alert.highest_scores.items()),
        _join_distinct(alert.flagged_by),
        _join_distinct(alert.weak_votes),
        _join_distinct(f"{event.service}:{event.action}" for event in alert.supporting_events),
        "; ".join(impact_text(each) for each in alert.impact_of),
        "; ".join(opener_texts(notification.origin)),
        "; ".join(other_record_texts(notification.origin)),
        _join_distinct(alert.tactics),
        alert.level,
        "yes" if alert.degraded else "no",
        alert.bank_version,
        " ".join(step_text(step) for step in alert.next_steps),
        *((disposition.by, disposition.why) if disposition else ("", "")),
        notification.link,
    ]


def safe_cell(text: str) -> str:
    """Return a text that a spreadsheet shows and never evaluates."""
    return _WORKED_OUT.sub("'", truncate(printable(truncate(text, MAX_CELL_LENGTH)), MAX_CELL_LENGTH))


def _join_distinct(values: Iterable[str]) -> str:
    return ", ".join(distinct_values(values))


def _encode_line(cells: Iterable[str]) -> bytes:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow([safe_cell(text) for text in cells])
    return out.getvalue().encode("utf-8")
