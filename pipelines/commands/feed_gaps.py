"""Feeds that fell silent, on a terminal: `fingerprint notices list`."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fingerprint.core.alert import FeedGap
from fingerprint.core.sanitize import printable
from fingerprint.store import open_store
from fingerprint.web import formatting


def list_feed_gaps(database_url: str, ended: bool = True) -> list[dict[str, Any]]:
    """What `notices list --json` gives. Raises FingerprintError where there is no desk."""
    return [feed_gap_summary(notice) for notice in open_store(database_url, create=False).feeds.gaps(ended)]


def feed_gap_summary(notice: FeedGap) -> dict[str, Any]:
    """A notice; times are ISO 8601 with a Z."""
    return {
        "notice_id": notice.notice_id,
        "kind": notice.kind,
        "feed": printable(notice.feed),
        "since": formatting.format_iso(notice.since),
        "seen_at": formatting.format_iso(notice.seen_at),
        "expected": notice.expected,
        "hourly": notice.hourly,
        "urgency": notice.urgency,
        "title": printable(notice.title),
        "ended_at": formatting.format_iso(notice.ended_at) if notice.ended_at else None,
        "ending": notice.ending,
    }


def print_feed_gaps(found: list[dict[str, Any]]) -> None:
    """Open ones first."""
    if not found:
        print("no notices: no account, region or source fell silent")
        return
    table = Table("urgency", "notice", "what is missed", "ended (UTC)", box=None, pad_edge=False)
    for notice in found:
        ended = (
            f"{notice['ended_at'][:16].replace('T', ' ')}, {notice['ending']}" if notice["ended_at"] else ""
        )
        urgency = f"{notice['urgency']:>3} {formatting.severity_of(notice['urgency'])}"
        table.add_row(urgency, notice["notice_id"][:12], Text(notice["title"], overflow="fold"), ended)
    Console().print(table)


def open_feed_gaps_sentence(count: int) -> str:
    """One line for whoever looks at the queue of alerts."""
    return f"{formatting.pluralize(count, 'feed')} silent: see `fingerprint notices list`"
