"""The alert queue on a terminal: `fingerprint alerts list`."""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fingerprint.adapters.system import SystemClock
from fingerprint.core import time_range
from fingerprint.core.alert import MINIMUM_URGENCY, Alert, Decision, severity_of
from fingerprint.core.alert_query import asks_for_me
from fingerprint.core.case import MAX_PAGE_SIZE, AlertFilter, CaseStatus, QueueRow
from fingerprint.core.errors import FingerprintError
from fingerprint.core.incident import IncidentFilter
from fingerprint.store import SqlStore, open_store
from fingerprint.web import formatting
from pipelines.commands import feed_gaps
from pipelines.commands.terminal import print_json, terminal_text, urgency_text

Output = Literal["table", "wide", "json", "csv", "id"]

WIDE_COLUMNS = 1000  # width of `-o wide` in characters, so that lines are not wrapped
CSV_COLUMNS = (
    "alert_id",
    "urgency",
    "severity",
    "rarity",
    "impact",
    "gravest_action",
    "status",
    "decision",
    "assignee",
    "title",
    "principal",
    "human",
    "first_event_time",
    "last_event_time",
    "events",
    "services",
    "accounts",
    "tactics",
    "level",
    "bank_version",
)
EVERYTHING = AlertFilter(status="all")
_AGE = re.compile(r"(\d+(?:\.\d+)?)([mhdw])")
_AGE_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def queue_filter(
    status: CaseStatus = "all",
    severity: str | None = None,
    principal: str = "",
    since: str | None = None,
    where: str = "",
) -> AlertFilter:
    """Return the filter of `alerts list`.

    - `severity` is the least one that is listed
    - `since` is a date, or an age such as `24h` or `7d`
    - `where` is a query of `core.alert_query`

    Raises FingerprintError for a `since` or a query that cannot be read, or for a query with `me`.
    """
    try:
        nameless = asks_for_me(where)
    except FingerprintError as error:
        raise FingerprintError(f"--where: {str(error).removeprefix('q: ')}") from None
    if nameless:
        raise FingerprintError("--where: `me` is known on the web page only; write the name: assignee:maria")
    return AlertFilter(
        status=status,
        least_urgency=MINIMUM_URGENCY[severity] if severity else 0,
        principal=principal,
        since=parse_since(since, SystemClock().now()),
        q=where,
    )


def parse_since(text: str | None, now: datetime) -> datetime | None:
    """Return the time that `--since` names: a date (UTC), or an age before `now`: 30m, 24h, 7d, 2w."""
    if text and (age := _AGE.fullmatch(text.strip())):
        with suppress(OverflowError):  # an age before all times
            return now - timedelta(**{_AGE_UNITS[age[2]]: float(age[1])})
    try:
        return time_range.parse_time_range(text).since
    except FingerprintError:
        raise FingerprintError(
            f"--since {text!r} is neither an age nor a date: write 24h, 7d, 2026-01-31, or 2026-01-31T18:00 (UTC)"
        ) from None


def list_alerts(
    database_url: str,
    output: Output = "table",
    which: AlertFilter = EVERYTHING,
    limit: int | None = None,
) -> None:
    """Print the alerts of a filter, most urgent first; suppressed ones only as JSON.

    Raises FingerprintError if there is no database.
    """
    with closing(open_store(database_url, create=False)) as store:
        decisions = store.cases.current_decisions()
        if output == "json":
            print_json(list(islice(_queue_as_json(store, decisions, which), limit)))
            return
        counts = store.queue.counts(which)
        rows = list(_queue_rows(store, which, limit, which.total_in(counts)))
        if output == "id":
            print("\n".join(row.alert_id for row in rows), end="\n" if rows else "")
        elif output == "csv":
            _write_csv(rows)
        else:
            _print_queue(store, rows, decisions, which, counts, wide=output == "wide")


def _print_queue(
    store: SqlStore,
    rows: Sequence[QueueRow],
    decisions: Mapping[str, Decision],
    which: AlertFilter,
    counts: Mapping[str, int],
    wide: bool,
) -> None:
    if gaps := store.feeds.gaps(ended=False):
        print(feed_gaps.open_feed_gaps_sentence(len(gaps)))
    hidden, total = counts["suppressed"], which.total_in(counts) or len(rows)
    if rows:
        Console(width=WIDE_COLUMNS if wide else None).print(_queue_table(rows, decisions, wide))
    elif which == EVERYTHING:
        print("no alerts: nothing was forwarded to the analysts")
    else:
        print("no alert matches: leave out a filter, or see all with `fingerprint alerts list`")
    if total > len(rows):
        print(f"{total - len(rows):,} more match: raise --limit")
    if which == AlertFilter(status=which.status):
        _print_incident_count(store, which.status, total)
    if hidden:
        print(
            f"{formatting.pluralize(hidden, 'alert')} more, suppressed: "
            "`fingerprint suppressions list` says why"
        )


def _print_incident_count(store: SqlStore, status: CaseStatus, alerts: int) -> None:
    """Print how many incidents the alerts of a status form, if some belong to the same incident."""
    if (found := store.incidents.count(IncidentFilter(status))) < alerts:
        together = formatting.pluralize(found, "incident")
        print(f"{alerts:,} alerts are {together}: see `fingerprint incidents list --status {status}`")


def _queue_rows(
    store: SqlStore, which: AlertFilter, limit: int | None = None, total: int | None = None
) -> Iterator[QueueRow]:
    """Yield the rows of a filter, at most `limit`, in the order of the queue; `total` is the number of its rows, if known."""
    left, cursor = math.inf if limit is None else limit, None
    while left > 0:
        page = store.queue.page(which, size=int(min(left, MAX_PAGE_SIZE)), cursor=cursor, total=total)
        yield from page.rows
        left, cursor, total = left - len(page.rows), page.following, page.total
        if cursor is None:
            return


def _queue_as_json(
    store: SqlStore, decisions: Mapping[str, Decision], which: AlertFilter
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `alerts list --json`, with suppressed alerts."""
    whole = {alert.alert_id: alert for alert in store.alerts.by_urgency(raw=False)}
    rows = [row for hidden in (False, True) for row in _queue_rows(store, replace(which, suppressed=hidden))]
    for row in sorted(rows, key=lambda row: (-row.urgency, row.first_event_time, row.alert_id)):
        if row.alert_id in whole:  # it may have been purged between the two queries
            yield alert_summary(whole[row.alert_id]) | {
                "urgency": row.urgency,
                "decision": decisions.get(row.alert_id, "open"),
                "own_urgency": row.own_urgency,
                "sharing": row.sharing,
                "suppressed": bool(row.suppressed_by),
            }


def alert_summary(alert: Alert) -> dict[str, Any]:
    """Return an alert as `alerts list --json` prints it; times are ISO 8601 with a Z."""
    return {
        "alert_id": alert.alert_id,
        "principal": alert.principal,
        "first_event_time": time_range.format_iso(alert.first_event_time),
        "last_event_time": time_range.format_iso(alert.last_event_time),
        "urgency": alert.urgency,
        "rarity": alert.rarity,
        "impact": alert.impact,
        "title": alert.title,
        "event_ids": list(alert.event_ids),
    }


def _queue_table(rows: Sequence[QueueRow], decisions: Mapping[str, Decision], wide: bool) -> Table:
    more = ("assignee", "principal", "last event (UTC)", "tactics") if wide else ()
    table = Table(
        "urgency", "alert", "what happened", "when (UTC)", "events", *more, box=None, pad_edge=False
    )
    # a wide table needs no column of accounts: its column of principals has the account
    several_accounts = not wide and len({account for row in rows for account in row.accounts}) > 1
    for row in rows:
        decision = decisions.get(row.alert_id, "").replace("_", " ")
        place = f" · {_accounts_text(row.accounts)}" if several_accounts and row.accounts else ""
        title = Text.assemble(
            (f"{decision}: " if decision else "", "bold"),
            terminal_text(row.title),
            terminal_text(place, "dim"),
            overflow="fold",
        )
        cells: list[Text | str] = [
            urgency_text(row.urgency),
            terminal_text(row.alert_id if wide else row.alert_id[:12]),
            title,
            _minute(row.first_event_time),
            f"{row.events:,}",
        ]
        if wide:
            cells += [
                terminal_text(row.assignee),
                terminal_text(row.principal),
                _minute(row.last_event_time),
                terminal_text(", ".join(row.tactics)),
            ]
        table.add_row(*cells)
    return table


def _accounts_text(accounts: Sequence[str]) -> str:
    first, *more = accounts
    return f"{first} and {formatting.pluralize(len(more), 'other account')}" if more else first


def _write_csv(rows: Sequence[QueueRow]) -> None:
    """Write rows as CSV to standard output; a spreadsheet takes no cell for a formula."""
    from fingerprint.delivery.formats.csv import safe_cell

    lines = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL, lineterminator="\n")
    lines.writerow(CSV_COLUMNS)
    for row in rows:
        cells = {
            "severity": severity_of(row.urgency),
            "status": "open" if row.open else "closed",
            "decision": row.decision or "",
            "first_event_time": time_range.format_iso(row.first_event_time),
            "last_event_time": time_range.format_iso(row.last_event_time),
            **{name: ", ".join(getattr(row, name)) for name in ("services", "accounts", "tactics")},
        }
        lines.writerow([safe_cell(str(cells.get(name, getattr(row, name, "")))) for name in CSV_COLUMNS])


def _minute(at: datetime) -> str:
    return time_range.format_iso(at)[:16].replace("T", " ")
