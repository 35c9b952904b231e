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
from collections.abc import Callable, Iterable, Iterator, Mapping

from fingerprint.core.alert import AlertEvent, severity_of
from fingerprint.core.sanitize import printable, truncate
from fingerprint.core.time_range import format_iso
from fingerprint.delivery.formats.text import (
    impact_text,
    opener_texts,
    other_record_texts,
    step_text,
)
from fingerprint.delivery.notification import Notification, alert_account, distinct_values

MAX_CELL_LENGTH = 32_000  # characters of a cell; a spreadsheet takes 32,767
_WORKED_OUT = re.compile(
    r"(?:(?<=^)|(?<=[;|]))(?=[\s\"']*[=+\-@\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b])"
)


def csv_header() -> bytes:
    """Return the line of column names."""
    return _encode_line(CELLS)


def csv_lines(notifications: Iterable[Notification]) -> Iterator[bytes]:
    """Yield a line for each alert: UTF-8, with the line end of RFC 4180."""
    for notification in notifications:
        yield _encode_line(cell(notification) for cell in CELLS.values())


def safe_cell(text: str) -> str:
    """Return a text that a spreadsheet shows and never evaluates."""
    return _WORKED_OUT.sub("'", truncate(printable(truncate(text, MAX_CELL_LENGTH)), MAX_CELL_LENGTH))


def _join_distinct(values: Iterable[str]) -> str:
    return ", ".join(distinct_values(values))


def _join_actions(events: Iterable[AlertEvent]) -> str:
    return _join_distinct(event.action_name for event in events)


def _encode_line(cells: Iterable[str]) -> bytes:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow([safe_cell(text) for text in cells])
    return out.getvalue().encode("utf-8")


# The columns in their order, and the text of each.
CELLS: Mapping[str, Callable[[Notification], str]] = {
    "alert_id": lambda each: each.alert.alert_id,
    "urgency": lambda each: str(each.alert.urgency),
    "severity": lambda each: severity_of(each.alert.urgency),
    "rarity": lambda each: str(each.alert.rarity),
    "impact": lambda each: str(each.alert.impact),
    "decision": lambda each: each.decision or "open",
    "title": lambda each: each.alert.title,
    "principal": lambda each: each.alert.principal,
    "human": lambda each: each.alert.human,
    "account": lambda each: alert_account(each.alert),
    "first_event_time": lambda each: format_iso(each.alert.first_event_time),
    "last_event_time": lambda each: format_iso(each.alert.last_event_time),
    "events": lambda each: str(len(each.alert.events)),
    "services": lambda each: _join_distinct(event.service for event in each.alert.events),
    "actions": lambda each: _join_actions(each.alert.events),
    "regions": lambda each: _join_distinct(event.region for event in each.alert.events),
    "source_addresses": lambda each: _join_distinct(event.source_address for event in each.alert.events),
    "countries": lambda each: _join_distinct(place.country for place in each.places()),
    "network_owners": lambda each: _join_distinct(place.owner for place in each.places()),
    "known_ranges": lambda each: _join_distinct(name for place in each.places() for name in place.ranges),
    "resources": lambda each: _join_distinct(event.resource for event in each.alert.events),
    "errors": lambda each: _join_distinct(event.error_code for event in each.alert.events),
    "scores": lambda each: _join_distinct(f"{name} {z:.1f}" for name, z in each.alert.highest_scores.items()),
    "flagged_by": lambda each: _join_distinct(each.alert.flagged_by),
    "supporting_actions": lambda each: _join_actions(each.alert.supporting_events),
    "impact_of": lambda each: "; ".join(impact_text(row) for row in each.alert.impact_of),
    "opened_by": lambda each: "; ".join(opener_texts(each.origin)),
    "same_call_by": lambda each: "; ".join(other_record_texts(each.origin)),
    "tactics": lambda each: _join_distinct(each.alert.tactics),
    "level": lambda each: each.alert.level,
    "degraded": lambda each: "yes" if each.alert.degraded else "no",
    "bank_version": lambda each: each.alert.bank_version,
    "next_steps": lambda each: " ".join(step_text(step) for step in each.alert.next_steps),
    "decided_by": lambda each: each.disposition.by if each.disposition else "",
    "why": lambda each: each.disposition.why if each.disposition else "",
    "link": lambda each: each.link,
}
