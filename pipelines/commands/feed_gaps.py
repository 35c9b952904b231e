"""Feed gaps on a terminal: `fingerprint feed-gaps list`."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fingerprint.core.alert import FeedGap, severity_of
from fingerprint.core.sanitize import printable
from fingerprint.core.time_range import format_iso
from fingerprint.store import open_store
from fingerprint.web import formatting


def list_feed_gaps(database_url: str, ended: bool = True) -> list[dict[str, Any]]:
    """Return feed gaps: the figures of `feed-gaps list --json`. Raise FingerprintError if there is no database."""
    return [feed_gap_summary(gap) for gap in open_store(database_url, create=False).feeds.gaps(ended)]


def feed_gap_summary(gap: FeedGap) -> dict[str, Any]:
    """Return a feed gap for JSON; times are ISO 8601 with a Z."""
    return {
        "notice_id": gap.notice_id,
        "kind": gap.kind,
        "feed": printable(gap.feed),
        "since": format_iso(gap.since),
        "seen_at": format_iso(gap.seen_at),
        "expected": gap.expected,
        "hourly": gap.hourly,
        "urgency": gap.urgency,
        "title": printable(gap.title),
        "ended_at": format_iso(gap.ended_at) if gap.ended_at else None,
        "ending": gap.ending,
    }


def print_feed_gaps(found: list[dict[str, Any]]) -> None:
    """Print a table of feed gaps."""
    if not found:
        print("no feed gaps: streams have found none (`fingerprint score` does not look for them)")
        return
    table = Table("urgency", "gap", "what is missing", "ended (UTC)", box=None, pad_edge=False)
    for gap in found:
        ended = f"{gap['ended_at'][:16].replace('T', ' ')}, {gap['ending']}" if gap["ended_at"] else ""
        urgency = f"{gap['urgency']:>3} {severity_of(gap['urgency'])}"
        table.add_row(urgency, gap["notice_id"][:12], Text(gap["title"], overflow="fold"), ended)
    Console().print(table)


def open_feed_gaps_sentence(count: int) -> str:
    """Return the line about open feed gaps in the list of alerts."""
    return f"{formatting.pluralize(count, 'feed')} with a gap: see `fingerprint feed-gaps list`"
