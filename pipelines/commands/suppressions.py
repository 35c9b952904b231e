"""Suppressions on a terminal: `fingerprint suppressions list`, `preview`, `add` and `end`.

Example:
    $ fingerprint suppressions preview --service glue --network 10.3.0.0/16
    would hide 14 alerts: 9 open, none urgent, none critical, none confirmed as an attack
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fingerprint.adapters.system import SystemClock
from fingerprint.alerting.suppression import MAX_DURATION, describe_match, describe_unknown
from fingerprint.core import time_range
from fingerprint.core.case import QueueRow, Suppression, SuppressionMatch, SuppressionPreview, UnknownValue
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import printable
from fingerprint.store import open_store
from fingerprint.web import formatting
from pipelines.cli.console import fit_columns
from pipelines.runtime import host

DEFAULT_DAYS = 30.0  # duration of a suppression if no end is given


def list_suppressions(database_url: str, ended: bool) -> list[dict[str, Any]]:
    """Return the current suppressions; with `ended` also those that have ended."""
    return [
        _suppression_as_json(each)
        for each in open_store(database_url, create=False).suppressions.list_all(ended)
    ]


def preview_suppression(database_url: str, match: SuppressionMatch) -> dict[str, Any]:
    """Return the counts of the alerts that a suppression would hide now."""
    return _preview_counts(open_store(database_url, create=False).suppressions.preview(match))


def add_suppression(
    database_url: str,
    match: SuppressionMatch,
    why: str,
    until: str | None,
    days: float | None,
    force: str | None = None,
) -> dict[str, Any]:
    """Add a suppression that ends at `until`, or after `days`; `force` is the reason why it may hide attacks."""
    if until and days is not None:
        raise FingerprintError("--until and --days both say when it ends: leave one out")
    end = time_range.parse_time_range(None, until, None).until if until else None
    lasts = DEFAULT_DAYS if days is None else time_range.check_days(days, MAX_DURATION.days)
    end = end or SystemClock().now() + timedelta(days=lasts)
    store = open_store(database_url, create=False)
    made = store.suppressions.create(match, why, end, host.operator_name(), force)
    unknown = () if made.hits else store.suppressions.preview(match, limit=0).unknown
    return _suppression_as_json(made) | {"unknown": _unknown_as_json(unknown)}


def end_suppression(database_url: str, suppression_id: str) -> dict[str, Any]:
    """End a suppression and return it."""
    store = open_store(database_url, create=False)
    version = store.suppressions.get(suppression_id).version
    return _suppression_as_json(store.suppressions.end(suppression_id, version, host.operator_name()))


def print_suppressions(found: list[dict[str, Any]]) -> None:
    """Print suppressions."""
    if not found:
        print("nothing is suppressed")
        return
    table = Table("suppression", "hides", "why", "by", "until (UTC)", "hits", box=None, pad_edge=False)
    for each in found:
        table.add_row(
            each["suppression_id"],
            _text(each["match_text"]),
            _text(each["reason"]),
            _text(each["owner"]),
            _end_text(each),
            f"{each['hits']:,}",
        )
    fit_columns(table, whole=("suppression", "hits"), words=("until (UTC)",))
    Console().print(table)


def print_preview(figures: dict[str, Any]) -> None:
    """Print what a suppression would hide."""
    print(preview_sentence(figures))
    _print_unknown(figures)
    for row in figures["first"]:
        print(printable(f"  {row['urgency']:>3} {row['alert_id'][:12]} {row['title']}"))
    if figures["alerts"] > len(figures["first"]):
        print(f"  and {figures['alerts'] - len(figures['first']):,} more")


def print_added_suppression(figures: dict[str, Any]) -> None:
    """Print a new suppression."""
    hidden = formatting.pluralize(figures["hits"], "alert")
    print(
        f"suppression {figures['suppression_id']} hides {hidden} until {_end_text(figures)}: {figures['match_text']}"
    )
    _print_unknown(figures)


def print_ended_suppression(figures: dict[str, Any]) -> None:
    """Print a suppression that was ended."""
    print(
        f"suppression {figures['suppression_id']} is over; {formatting.pluralize(figures['hits'], 'alert')} can be seen again"
    )


def preview_sentence(figures: dict[str, Any]) -> str:
    """Return the line that says what a suppression would hide."""
    urgent, critical, confirmed = (figures[name] or "none" for name in ("urgent", "critical", "confirmed"))
    needs = "; that needs --force" if figures["critical"] or figures["confirmed"] else ""
    return (
        f"would hide {formatting.pluralize(figures['alerts'], 'alert')}: {figures['open']:,} open, {urgent} urgent, "
        f"{critical} critical, {confirmed} confirmed as an attack{needs}"
    )


def _preview_counts(would: SuppressionPreview) -> dict[str, Any]:
    counts = {name: getattr(would, name) for name in ("alerts", "open", "urgent", "critical", "confirmed")}
    first = [_alert_preview(row) for row in would.rows]
    return counts | {"first": first, "unknown": _unknown_as_json(would.unknown)}


def _unknown_as_json(unknown: Iterable[UnknownValue]) -> list[dict[str, Any]]:
    return [asdict(each) | {"text": describe_unknown(each)} for each in unknown]


def _print_unknown(figures: dict[str, Any]) -> None:
    for each in figures["unknown"]:
        print(f"  {each['text']}")


def _alert_preview(row: QueueRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("alert_id", "principal", "title")} | {
        "urgency": row.own_urgency
    }


def _suppression_as_json(made: Suppression) -> dict[str, Any]:
    """Return a suppression for JSON; times are ISO 8601 with a Z."""
    times = {name: getattr(made, name) for name in ("created_at", "expires_at", "ended_at", "last_hit")}
    formatted = {name: moment and time_range.format_iso(moment) for name, moment in times.items()}
    return asdict(made) | formatted | {"match_text": describe_match(made.match)}


def _end_text(figures: dict[str, Any]) -> str:
    end = figures["ended_at"] or figures["expires_at"]
    return f"{end[:16].replace('T', ' ')}{', ended' if figures['ended_at'] else ''}"


def _text(text: str) -> Text:
    return Text(printable(text), overflow="fold")
