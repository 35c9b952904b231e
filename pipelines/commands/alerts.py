"""The queue on a terminal: `fingerprint alerts list` and `fingerprint alerts show`.

Every text of a record is made visible (`hostile.visible`) and given to rich as text, never as markup.
"""

from __future__ import annotations

import json as json_text
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fingerprint.analysis import adjusted_thresholds
from fingerprint.core.alert import ActivityCurve, Alert, AlertEvent, Decision, Disposition
from fingerprint.core.case import MAX_PAGE_SIZE, AlertFilter, QueueRow
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors import detector_label
from fingerprint.store import SqlStore, open_store
from fingerprint.web import formatting
from fingerprint.web.static_report import write_alert_page
from pipelines.commands import feed_gaps, triage

MAX_FIELD_CHARACTERS = 400  # characters of a text shown here; the page and --json have it whole
SPARKLINE_BLOCKS = "▁▂▃▄▅▆▇█"
MAX_EVENTS_SHOWN = 40  # shown here; the page has all
DEFAULT_SETTINGS = Settings()
COLOURS = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan"}


def list_alerts(database_url: str, json: bool = False) -> None:
    """Print the queue, most urgent first, as JSON with what is suppressed. Raises FingerprintError where there is no desk."""
    desk = open_store(database_url, create=False)
    standing = desk.cases.current_decisions()
    if json:
        _print_json(list(_queue_as_json(desk, standing)))
        return
    if silent := desk.feeds.gaps(ended=False):
        print(feed_gaps.open_feed_gaps_sentence(len(silent)))
    if rows := _queue_rows(desk, AlertFilter(status="all")):
        Console().print(_queue_table(rows, standing))
    else:
        print("no alerts: nothing was forwarded to the analysts")
    if hidden := desk.queue.counts(AlertFilter(status="all"))["suppressed"]:
        print(
            f"{formatting.pluralize(hidden, 'alert')} more, suppressed: `fingerprint suppressions list` says why"
        )


def _queue_rows(store: SqlStore, which: AlertFilter) -> list[QueueRow]:
    """All of a filter, in the order of the queue."""
    page = store.queue.page(which, size=MAX_PAGE_SIZE)
    rows = [*page.rows]
    while page.following:
        page = store.queue.page(which, size=MAX_PAGE_SIZE, cursor=page.following)
        rows += page.rows
    return rows


def _queue_as_json(store: SqlStore, standing: Mapping[str, Decision]) -> Iterator[dict[str, Any]]:
    """The queue for a program, those that are suppressed too."""
    whole = {alert.alert_id: alert for alert in store.alerts.by_urgency(raw=False)}
    rows = [
        row
        for hidden in (False, True)
        for row in _queue_rows(store, AlertFilter(status="all", suppressed=hidden))
    ]
    for row in sorted(rows, key=lambda row: (-row.urgency, row.first_event_time, row.alert_id)):
        if row.alert_id in whole:  # purged between the two questions, or not
            yield alert_summary(whole[row.alert_id]) | {
                "urgency": row.urgency,
                "decision": standing.get(row.alert_id, "open"),
                "own_urgency": row.own_urgency,
                "sharing": row.sharing,
                "suppressed": bool(row.suppressed_by),
            }


def show_alert(
    database_url: str,
    alert_id: str,
    json: bool = False,
    page: Path | None = None,
    bank: Path | None = None,
    settings: Settings = DEFAULT_SETTINGS,
) -> None:
    """Print one alert explained, and write its page if asked; with the `bank` that measured it at hand, also which thresholds
    were moved. Raises FingerprintError if the id names no one alert."""
    desk = open_store(database_url, create=False)
    alert = desk.alerts.get(alert_id)
    said, row = desk.cases.dispositions(alert.alert_id), desk.queue.row(alert.alert_id)
    moved = adjusted_thresholds.adjusted_thresholds(bank, alert, settings) if bank else []
    if page:
        write_alert_page(alert, page)
    if json:
        decided = [triage.disposition_as_json(each) for each in said]
        _print_json(alert_detail(alert) | {"dispositions": decided, "thresholds": moved})
    else:
        _explain(Console(), alert, row, said, moved)
        print(f"page: {page}" if page else "`--page FILE` writes it as a page")


def _explain(
    console: Console, alert: Alert, row: QueueRow, disposition: list[Disposition], moved: list[dict[str, Any]]
) -> None:
    _print_summary(console, alert, row, disposition, moved)
    if alert.drivers:
        console.print(_drivers_table(alert))
    if alert.curve and alert.curve.counts:
        _print_curve(console, alert.curve)
    console.print(_events_table(alert))
    for number, step in enumerate(alert.next_steps, 1):
        console.print(Text.assemble((f"{number}. ", "bold"), _text(step)))


def alert_summary(alert: Alert) -> dict[str, Any]:
    """An alert as `alerts list --json` gives it; times are ISO 8601 with a Z."""
    return {
        "alert_id": alert.alert_id,
        "principal": alert.principal,
        "first_event_time": formatting.format_iso(alert.first_event_time),
        "last_event_time": formatting.format_iso(alert.last_event_time),
        "urgency": alert.urgency,
        "title": alert.title,
        "event_ids": list(alert.event_ids),
    }


def alert_detail(alert: Alert) -> dict[str, Any]:
    """All of an alert: its summary first, then what explains it, then its events with their raw records as
    text."""
    curve = alert.curve and _as_json(alert.curve, ActivityCurve.__slots__)
    return alert_summary(alert) | {
        "human": alert.human,
        "level": alert.level,
        "bank_version": alert.bank_version,
        "degraded": alert.degraded,
        "window_start": formatting.format_iso(alert.window_start),
        "tactics": list(alert.tactics),
        "next_steps": list(alert.next_steps),
        "drivers": [_as_json(driver, driver.__slots__) for driver in alert.drivers],
        "curve": curve,
        "events": [_as_json(event, AlertEvent.__slots__) for event in alert.events],
    }


def sparkline(values: tuple[float, ...], width: int = 84) -> str:
    """The last `width` values as blocks of eight heights; zero and what is no number are the lowest."""
    shown = [value if math.isfinite(value) else 0.0 for value in values[-width:]]
    top = max([*shown, 1e-9])
    return "".join(
        SPARKLINE_BLOCKS[min(math.ceil(value / top * 7), 7) if value > 0 else 0] for value in shown
    )


def _as_json(record: Any, names: tuple[str, ...]) -> dict[str, Any]:
    values = ((name, getattr(record, name)) for name in names)
    return {
        name: formatting.format_iso(value) if hasattr(value, "isoformat") else _number(value)
        for name, value in values
    }


def _number(value: Any) -> Any:
    """JSON has no NaN: null."""
    if isinstance(value, tuple):
        return [_number(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_json(value: Any) -> None:
    """ASCII only, so that nothing in it can steer a terminal."""
    print(json_text.dumps(value, indent=1, ensure_ascii=True, allow_nan=False).replace("\x7f", "\\u007f"))


def _text(text: str, style: str = "") -> Text:
    shown = printable(text[:MAX_FIELD_CHARACTERS])
    return Text(
        f"{shown}… ({len(text):,} characters)" if len(text) > MAX_FIELD_CHARACTERS else shown,
        style=style,
        overflow="fold",
    )


def _urgency_text(urgency: int) -> Text:
    word = formatting.severity_of(urgency)
    return Text(f"{urgency:>3} {word}", style=COLOURS[word])


def _queue_table(rows: Sequence[QueueRow], standing: Mapping[str, Decision]) -> Table:
    table = Table(
        "urgency",
        "alert",
        "what happened",
        "when (UTC)",
        "events",
        box=None,
        pad_edge=False,
        show_lines=False,
    )
    for row in rows:
        when = f"{formatting.format_iso(row.first_event_time)[:16].replace('T', ' ')}"
        decision = standing.get(row.alert_id, "").replace("_", " ")
        title = Text.assemble((f"{decision}: " if decision else "", "bold"), _text(row.title))
        table.add_row(_urgency_text(row.urgency), _text(row.alert_id[:12]), title, when, f"{row.events:,}")
    return table


def _print_summary(
    console: Console, alert: Alert, row: QueueRow, disposition: list[Disposition], moved: list[dict[str, Any]]
) -> None:
    console.print(Text.assemble(_urgency_text(row.urgency), "  ", _text(alert.title, "bold")))
    facts = Table.grid(padding=(0, 2))
    facts.add_row("alert", _text(alert.alert_id))
    facts.add_row("principal", _text(alert.principal))
    facts.add_row("behind it", _text(alert.human or "not recorded"))
    facts.add_row("when", formatting.format_span(alert.first_event_time, alert.last_event_time))
    facts.add_row(
        "judged by",
        Text.assemble(formatting.level_description(alert.level), "; bank ", _text(alert.bank_version)),
    )
    for held in moved:
        how = formatting.format_threshold(held["threshold"], held["shift"], held["benign"], held["malicious"])
        facts.add_row("threshold", _text(f"{how}, {held['key']}"))
    if alert.degraded:
        facts.add_row("degraded", "measured in process: the server was away")
    for each in disposition:
        why = f": {each.why}" if each.why else ""
        facts.add_row(
            "decided",
            _text(
                f"{triage.disposition_sentence(triage.disposition_as_json(each))}, {formatting.format_iso(each.at)}{why}"
            ),
        )
    if row.grown:
        facts.add_row("", f"open again: {row.grown:,} events came since")
    elif disposition and row.decision is None:
        facts.add_row("", "open again: somebody opened it since")
    if alert.tactics:
        facts.add_row("tactics", _text(", ".join(alert.tactics)))
    console.print(facts)
    console.print()


def _drivers_table(alert: Alert) -> Table:
    table = Table(
        "what", "seen", "usual here", "how rare", "among peers", "surprise", box=None, pad_edge=False
    )
    for driver in alert.drivers:
        rarity, surprise = formatting.RARITY_LABELS[driver.rarity], f"{driver.surprise:.1f}"
        peers = formatting.RARITY_LABELS[driver.peers] if driver.peers else ""
        table.add_row(
            _text(driver.feature), _text(driver.seen), _text(driver.expected), rarity, peers, surprise
        )
    return table


def _print_curve(console: Console, curve: ActivityCurve) -> None:
    """Counted over expected, on their own scales, with a mark under each flagged interval."""
    width = min(len(curve.counts), max(20, console.width - 12))
    first = len(curve.counts) - width
    marks = "".join("^" if first + place in curve.flagged else " " for place in range(width))
    unit = formatting.interval_unit(curve.interval_seconds)
    console.print()
    console.print(Text.assemble(_text(curve.channel), f" per {unit}, ", _text(curve.entity)))
    for name, values in (("counted", curve.counts), ("expected", curve.expected)):
        top = max((value for value in values[-width:] if math.isfinite(value)), default=0.0)
        console.print(
            f"{name:<9}{sparkline(values, width)}  at most {formatting.format_figure(top)}",
            soft_wrap=True,
            markup=False,
        )
    console.print(f"{'':<9}{marks}", soft_wrap=True, markup=False)


def _events_table(alert: Alert) -> Table:
    detectors = tuple(dict.fromkeys(name for event in alert.events for name in event.scores))
    labels = (f"{detector_label(name).lower()} z" for name in detectors)
    table = Table("time (UTC)", "call", "error", "from", *labels, box=None, pad_edge=False)
    for event in alert.events[:MAX_EVENTS_SHOWN]:
        scores = (event.scores.get(name) for name in detectors)
        z = [("" if value is None else f"{value:.1f}") for value in scores]
        when = formatting.format_iso(event.event_time)[:19].replace("T", " ")
        table.add_row(
            when,
            _text(f"{event.service}:{event.action}"),
            _text(event.error_code),
            _text(event.source_address),
            *z,
        )
    if len(alert.events) > MAX_EVENTS_SHOWN:
        table.caption = f"and {len(alert.events) - MAX_EVENTS_SHOWN:,} more: --page FILE or --json shows all"
    return table
