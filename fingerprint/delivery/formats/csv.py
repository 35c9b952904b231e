"""Alerts as rows for a spreadsheet, one an alert, in which no cell is ever a formula.

Example:
    >>> cell('=HYPERLINK("http://evil.example","x")')
    '\\'=HYPERLINK("http://evil.example","x")'

A cell that a spreadsheet would work out (it begins with = + - @, also as full-width characters) gets an apostrophe before it, and
so does what follows a semicolon within one, because some countries' spreadsheets cut there. All cells are quoted; what would
steer a screen is written as an escape (`hostile.visible`). Source of the rules: OWASP, "CSV Injection".
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator

from fingerprint.core.sanitize import visible
from fingerprint.core.severity import band
from fingerprint.delivery.formats.text import cut
from fingerprint.delivery.notification import News, account_of, distinct

LONGEST = 32_000  # characters of a cell; a spreadsheet takes 32,767
COLUMNS = (
    *("alert_id", "urgency", "severity", "decision", "title", "principal", "human", "account"),
    *("first_event_time", "last_event_time", "events", "services", "actions", "regions", "source_addresses"),
    *("errors", "tactics", "level", "degraded", "bank_version", "next_steps", "decided_by", "why", "link"),
)
_WORKED_OUT = re.compile(
    r"(?:(?<=^)|(?<=[;|]))(?=[\s\"']*[=+\-@\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b])"
)


def header() -> bytes:
    return _line(COLUMNS)


def rows(told: Iterable[News]) -> Iterator[bytes]:
    """One line each, UTF-8, ended as RFC 4180 says."""
    for news in told:
        yield _line(row(news))


def row(news: News) -> list[str]:
    """The cells of one alert, in the order of COLUMNS."""
    alert, said = news.alert, news.said
    events = alert.events
    return [
        *(alert.alert_id, str(alert.urgency), band(alert.urgency), news.decision or "open"),
        *(alert.title, alert.principal, alert.human, account_of(alert)),
        *(alert.first_event_time.isoformat(), alert.last_event_time.isoformat(), str(len(events))),
        _many(event.service for event in events),
        _many(f"{event.service}:{event.action}" for event in events),
        _many(event.region for event in events),
        _many(event.source_address for event in events),
        _many(event.error_code for event in events),
        *(_many(alert.tactics), alert.level, "yes" if alert.degraded else "no", alert.bank_version),
        " ".join(alert.next_steps),
        *((said.by, said.why) if said else ("", "")),
        news.link,
    ]


def cell(text: str) -> str:
    """Text that is shown as it is and never worked out."""
    return _WORKED_OUT.sub("'", cut(visible(cut(text, LONGEST)), LONGEST))


def _many(values: Iterable[str]) -> str:
    return ", ".join(distinct(values))


def _line(cells: Iterable[str]) -> bytes:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow([cell(text) for text in cells])
    return out.getvalue().encode("utf-8")
