"""Incidents, and figures for a team lead, on a terminal: `fingerprint incidents list`, `show` and `overview`.

Text from records is sanitised (`sanitize.printable`) and passed to rich as text, never as markup.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, is_dataclass
from datetime import date, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table

from fingerprint.adapters.system import SystemClock
from fingerprint.core.alert import severity_of
from fingerprint.core.incident import IncidentFilter, IncidentStatusFilter
from fingerprint.core.sanitize import printable
from fingerprint.core.time_range import format_iso
from fingerprint.store import open_store
from fingerprint.web import formatting
from pipelines.cli.console import fit_columns
from pipelines.commands.terminal import terminal_text

RESPONSE_TARGET, CLOSE_TARGET = 4 * 3600.0, 24 * 3600.0  # seconds; the defaults of the web page, too


def list_incidents(database_url: str, status: IncidentStatusFilter, limit: int) -> list[dict[str, Any]]:
    """Return incidents for JSON, the gravest first. Raise FingerprintError if there is no database."""
    with closing(open_store(database_url, create=False)) as store:
        return [_to_json(row) for row in store.incidents.page(IncidentFilter(status), size=limit).rows]


def show_incident(database_url: str, alert_id: str) -> dict[str, Any]:
    """Return an incident for JSON. Raise FingerprintError if there is no database, or not exactly one such alert."""
    with closing(open_store(database_url, create=False)) as store:
        found: dict[str, Any] = _to_json(store.incidents.get(alert_id))
        return found


def read_overview(database_url: str, days: int) -> dict[str, Any]:
    """Return the figures of the last days for JSON. Raise FingerprintError if there is no database."""
    now = SystemClock().now()
    with closing(open_store(database_url, create=False)) as store:
        found = store.overview.figures(now - timedelta(days=days), now, RESPONSE_TARGET, CLOSE_TARGET)
        figures: dict[str, Any] = _to_json(found)
        return figures


def print_incidents(found: list[dict[str, Any]]) -> None:
    """Print a table of incidents."""
    if not found:
        print("no incident matches: see all with `fingerprint incidents list --status all`")
        return
    headers = ("urgency", "incident", "alerts", "what", "since (UTC)", "status")
    assigned = ("assignee",) if any(row["assignees"] for row in found) else ()
    table = Table(*headers, *assigned, box=None, pad_edge=False)
    for row in found:
        cells = [
            f"{row['urgency']:>3} {severity_of(row['urgency'])}",
            terminal_text(row["incident_id"][:12]),
            str(row["alerts"]),
            terminal_text(row["titles"][0]),
            row["first_event_time"][:16].replace("T", " "),
            row["status"].replace("_", " "),
            terminal_text(", ".join(row["assignees"])),
        ]
        table.add_row(*cells[: len(table.columns)])
    fit_columns(table, whole=("urgency", "incident", "alerts"), words=("since (UTC)", "status"))
    Console().print(table)


def print_incident(found: dict[str, Any]) -> None:
    """Print an incident's alerts in the order of time."""
    row = found["row"]
    console = Console()
    alike = any(each["reason"] == "new_action" for each in found["alerts"])
    same = f"; {len(row['principals'])} principals called the same new actions on this day" if alike else ""
    console.print(
        f"{row['urgency']} {severity_of(row['urgency'])}, {row['status'].replace('_', ' ')}, "
        f"{formatting.pluralize(row['alerts'], 'alert')}, {row['open_alerts']} open{same}"
    )
    table = Table("time (UTC)", "urgency", "alert", "what", "joined by", box=None, pad_edge=False)
    for each in found["alerts"]:
        alert = each["row"]
        table.add_row(
            alert["first_event_time"][:16].replace("T", " "),
            str(alert["urgency"]),
            terminal_text(alert["alert_id"][:16]),
            terminal_text(alert["title"]),
            terminal_text(f"{each['reason'].replace('_', ' ')} {each['value']}".strip()),
        )
    fit_columns(table, whole=("urgency", "alert"), words=("time (UTC)",))
    console.print(table)


def print_overview(found: dict[str, Any]) -> None:
    """Print the figures as lines."""
    decisions = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in found["decisions"].items())
    print(f"alerts came      {found['alerts']:,}" + (f": {decisions}" if decisions else ""))
    for name, each in (
        ("first response", found["first_response"]),
        ("time to close", found["time_to_close"]),
    ):
        median = _hours(each["median"]) if each["done"] else "none yet"
        p90 = f", 90th percentile {_hours(each['p90'])}" if each["p90"] is not None else ""
        waits = f"{each['waiting']:,} wait, {each['late']:,} for more than {_hours(each['target'])}"
        print(f"{name:<16} median {median}{p90} (of {each['done']:,}); {waits}")
    for title, rows in (("all", [found["total"]]), ("came in week of", found["by_week"]), ("detector", found["by_detector"]),
                        ("suppression", found["by_suppression"])):  # fmt: skip
        for each in rows:
            print(f"{title:<16} {printable(each['name'])}: {_describe_precision(each)}")


def _describe_precision(each: dict[str, Any]) -> str:
    decided = each["true_positives"] + each["benign"] + each["false_positives"]
    if not decided:
        return "none decided"
    interval = f"between {each['low']:.0%} and {each['high']:.0%}"
    return (
        f"{each['true_positives']} of {decided} decided were true positive, {each['share']:.0%}, {interval}"
    )


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"


def _to_json(value: Any) -> Any:
    """Return frozen records as JSON: times in ISO 8601 with a Z."""
    if is_dataclass(value) and not isinstance(value, type):
        return _to_json(asdict(value))
    if isinstance(value, dict):
        return {name: _to_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(part) for part in value]
    if isinstance(value, datetime):
        return format_iso(value)
    return value.isoformat() if isinstance(value, date) else value
