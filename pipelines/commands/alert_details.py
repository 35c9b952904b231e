"""One alert on a terminal: `fingerprint alerts show`. Text from records is sanitised and never read as markup."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fingerprint.alerting.prevalence import MAX_COUNTED_OTHERS, NETWORK_FEATURES, feature_labels
from fingerprint.analysis import principal_profile
from fingerprint.core.alert import (
    ActionImpact,
    ActivityCurve,
    Alert,
    AlertEvent,
    CredentialIssue,
    Disposition,
    NextStep,
    SurpriseDriver,
    service_at,
)
from fingerprint.core.case import QueueRow
from fingerprint.core.incident import SessionOrigin
from fingerprint.core.people import SESSION_NAMES_CHOSEN, session_names
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import format_iso
from fingerprint.delivery.formats.text import impact_text, opener_texts, other_record_texts
from fingerprint.detection.detectors import detector_label
from fingerprint.detection.ensemble import SECOND_VOTE_THRESHOLD
from fingerprint.store import open_store
from fingerprint.web import formatting
from fingerprint.web.alert_story import fingerprint_in_words, usual_above
from fingerprint.web.session_origin import read_origin, with_opener
from fingerprint.web.static_report import write_alert_page
from pipelines.commands import triage
from pipelines.commands.alerts import alert_summary
from pipelines.commands.terminal import MAX_STEP_CHARACTERS, print_json, terminal_text, urgency_text

SPARKLINE_BLOCKS = "▁▂▃▄▅▆▇█"
MAX_IMPACT_ROWS = 5  # the web page has all
MAX_CHAIN_SHOWN = 5  # calls that led to a session, the nearest first
MAX_EVENTS_SHOWN = 40  # the web page has all
CALLS_A_TURN = 5  # calls of one action before the calls of the next action follow
MAX_TABLE_WIDTH = 10_000  # characters: wider than any terminal
INDENT = 4  # characters before the second line of a row
CURVE_TEXT_WIDTH = 26  # characters of a curve's line for its name and its highest value
DEFAULT_SETTINGS = Settings()


def show_alert(
    database_url: str,
    alert_id: str,
    json: bool = False,
    page: Path | None = None,
    bank: Path | None = None,
    settings: Settings = DEFAULT_SETTINGS,
) -> None:
    """Print one alert with its explanation, and write it to `page` if a file is given.

    With the `bank` that scored it, adjusted thresholds are shown, too. Raises FingerprintError if the id names no single alert.
    """
    store = open_store(database_url, create=False)
    alert = store.alerts.get(alert_id)
    dispositions, row = store.cases.dispositions(alert.alert_id), store.queue.row(alert.alert_id)
    moved = principal_profile.adjusted_thresholds(bank, alert, settings) if bank else []
    origin = read_origin(store, alert.alert_id)
    alert = with_opener(alert, origin)
    if page:
        write_alert_page(alert, page)
    if json:
        decided = [triage.disposition_as_json(each) for each in dispositions]
        print_json(
            alert_detail(alert) | _origin_as_json(origin) | {"dispositions": decided, "thresholds": moved}
        )
    else:
        _explain(
            Console(), alert, row, dispositions, moved, origin, store.prevalence.of_alert(alert.alert_id)
        )
        print(f"page: {page}" if page else "`--page FILE` writes it as a page")


def _explain(
    console: Console,
    alert: Alert,
    row: QueueRow,
    disposition: list[Disposition],
    moved: list[dict[str, Any]],
    origin: SessionOrigin,
    shared: Sequence[tuple[str, str, int]],
) -> None:
    _print_summary(console, alert, row, disposition, moved, origin, shared)
    for each in alert.impact_of[:MAX_IMPACT_ROWS]:
        console.print(Text.assemble((f"{each.gravity}: ", "bold"), terminal_text(impact_text(each))))
    if alert.drivers:
        console.print()
        lines = map(_driver_lines, alert.drivers, usual_above(alert.drivers))
        _print_rows(console, _drivers_table(alert), lines)
    if alert.curve and alert.curve.counts:
        _print_curve(console, alert.curve)
    console.print()
    _print_events(console, alert, alert.events)
    if alert.supporting_events:
        console.print("\nalso unusual in the same hours, without a verdict", style="dim")
        _print_events(console, alert, alert.supporting_events, style="dim")
    if row.urgency < row.own_urgency:
        others = _others_text(row.sharing)
        console.print()
        same = f"{others[:1].upper()}{others[1:]} did the same within a day, as after a change to all"
        console.print(Text.assemble(("verify: ", "bold"), f"{same}: ask first who made that change."))
    for step in alert.next_steps:
        console.print()
        console.print(
            Text.assemble((f"{step.phase}: ", "bold"), terminal_text(step.text, most=MAX_STEP_CHARACTERS))
        )
        if step.command:
            console.print(command_text(step.command), soft_wrap=True)


def _others_text(others: int) -> str:
    """Return the words for a number of other principals; 'at least' if the counting ended at MAX_COUNTED_OTHERS."""
    least = "at least " if others >= MAX_COUNTED_OTHERS else ""
    return f"{least}{others:,} other principal{'s' * (others != 1)}"


def _shared_networks(shared: Sequence[tuple[str, str, int]]) -> list[str]:
    """Return the unusual networks that alerts of other principals have, too; `shared` has (feature, value, number of others).

    A service that made the call is no network. A value that is both the network and the address range is named once.

    >>> _shared_networks([("network", "62.156.0.0/16", 16), ("action", "s3:GetObject", 3)])
    ['62.156.0.0/16: 16 other principals with alerts within a day']
    """
    names = feature_labels(NETWORK_FEATURES)
    found = {seen: others for feature, seen, others in shared if feature in names and not service_at(seen)}
    return [f"{seen}: {_others_text(others)} with alerts within a day" for seen, others in found.items()]


def command_text(command: str) -> Text:
    """Return the commands of a step for rich, one a line and uncut, so that a shell can run them; each line is sanitised."""
    return Text("\n".join(map(printable, command.split("\n"))), style="cyan")


def alert_detail(alert: Alert) -> dict[str, Any]:
    """Return an alert as `alerts show --json` prints it: summary, explanation, events with their raw records as text."""
    curve = alert.curve and _as_json(alert.curve, ActivityCurve.__slots__)
    return alert_summary(alert) | {
        "human": alert.human,
        "level": alert.level,
        "bank_version": alert.bank_version,
        "degraded": alert.degraded,
        "window_start": format_iso(alert.window_start),
        "tactics": list(alert.tactics),
        "impact_of": [_as_json(each, ActionImpact.__slots__) for each in alert.impact_of],
        "next_steps": [_as_json(step, NextStep.__slots__) for step in alert.next_steps],
        "drivers": [_as_json(driver, driver.__slots__) for driver in alert.drivers],
        "curve": curve,
        "events": [_as_json(event, AlertEvent.__slots__) for event in alert.events],
        "supporting_events": [_as_json(event, AlertEvent.__slots__) for event in alert.supporting_events],
    }


def _origin_as_json(origin: SessionOrigin) -> dict[str, Any]:
    return {
        "credential_chain": [_as_json(issue, CredentialIssue.__slots__) for issue in origin.chain],
        "other_records": [other._asdict() for other in origin.other_records],
    }


def sparkline(values: tuple[float, ...], width: int = 84, top: float = 0.0) -> str:
    """Return the last `width` values as blocks of eight heights; zero, negative and infinite values and NaN are the lowest.

    The highest block stands for `top`, or for the highest value if that is above `top`.
    """
    shown = [value if math.isfinite(value) else 0.0 for value in values[-width:]]
    top = max([*shown, top, 1e-9])
    return "".join(
        SPARKLINE_BLOCKS[min(math.ceil(value / top * 7), 7) if value > 0 else 0] for value in shown
    )


def _as_json(record: Any, names: tuple[str, ...]) -> dict[str, Any]:
    values = ((name, getattr(record, name)) for name in names)
    return {
        name: format_iso(value) if hasattr(value, "isoformat") else _number(value) for name, value in values
    }


def _number(value: Any) -> Any:
    """Return a value for JSON, with None for NaN and infinite numbers, which JSON does not have."""
    if isinstance(value, tuple):
        return [_number(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_summary(
    console: Console,
    alert: Alert,
    row: QueueRow,
    disposition: list[Disposition],
    moved: list[dict[str, Any]],
    origin: SessionOrigin,
    shared: Sequence[tuple[str, str, int]],
) -> None:
    console.print(Text.assemble(urgency_text(row.urgency), "  ", terminal_text(alert.title, "bold")))
    facts = Table.grid(padding=(0, 2))
    facts.add_row("alert", terminal_text(alert.alert_id))
    facts.add_row("urgency from", f"rarity {alert.rarity}, impact {alert.impact}")
    if row.sharing:
        lowered = f", so its own urgency of {row.own_urgency} is lowered" * (row.urgency < row.own_urgency)
        facts.add_row("shared with", f"{_others_text(row.sharing)} within a day{lowered}")
    for place, network in enumerate(_shared_networks(shared)):
        facts.add_row("" if place else "also from", terminal_text(network))
    _add_origin(facts, alert, origin)
    facts.add_row("when", formatting.format_span(alert.first_event_time, alert.last_event_time))
    _add_judgement(facts, alert, moved)
    _add_decisions(facts, row, disposition)
    if alert.tactics:
        facts.add_row("tactics", terminal_text(", ".join(alert.tactics)))
    console.print(facts)
    console.print()


def _add_origin(facts: Table, alert: Alert, origin: SessionOrigin) -> None:
    """Add the principal, the callers that other accounts' records of its calls name, and the calls that opened the session."""
    facts.add_row("principal", terminal_text(alert.principal))
    opened_by = f"{origin.opener}, who opened the session" if origin.opener else ""
    facts.add_row("behind it", terminal_text(alert.people or opened_by or "not recorded"))
    if not alert.human and (sessions := session_names(alert.events)):
        facts.add_row("session names", terminal_text(f"{sessions} ({SESSION_NAMES_CHOSEN})"))
    for place, other in enumerate(other_record_texts(origin)):
        facts.add_row("" if place else "same call by", terminal_text(other))
    for place, opener in enumerate(opener_texts(origin)[:MAX_CHAIN_SHOWN]):
        facts.add_row("" if place else "opened by", terminal_text(opener))


def _add_judgement(facts: Table, alert: Alert, moved: Sequence[dict[str, Any]]) -> None:
    """Add the fingerprint and the bank that judged the alert, thresholds that decisions moved, and whether Triton was missing."""
    level = formatting.level_description(alert.level)
    facts.add_row("judged by", Text.assemble(level, "; bank ", terminal_text(alert.bank_version)))
    for adjusted in moved:
        figures = (adjusted[name] for name in ("threshold", "shift", "benign", "malicious"))
        how = formatting.format_threshold(*figures)
        facts.add_row("threshold", terminal_text(f"{how}, {adjusted['key']}"))
    if alert.degraded:
        facts.add_row("degraded", "losses were computed in process: Triton was unavailable")


def _add_decisions(facts: Table, row: QueueRow, disposition: Sequence[Disposition]) -> None:
    """Add the decisions of analysts, and why the alert is open again if it is."""
    for each in disposition:
        why = f": {each.why}" if each.why else ""
        decided = triage.disposition_sentence(triage.disposition_as_json(each))
        facts.add_row("decided", terminal_text(f"{decided}, {format_iso(each.at)}{why}"))
    if row.grown:
        facts.add_row("", f"open again: {row.grown:,} events came since")
    elif disposition and row.decision is None:
        facts.add_row("", "open again: it was reopened")


def _print_rows(console: Console, table: Table, rows: Iterable[tuple[Text, Text]], style: str = "") -> None:
    """Print a table if the terminal is wide enough for it; otherwise print two lines for each row, wrapped between words."""
    if (
        Measurement.get(console, console.options.update(width=MAX_TABLE_WIDTH), table).maximum
        <= console.width
    ):
        console.print(table, style=style)
        return
    for head, rest in rows:
        console.print(head, style=style)
        console.print(Padding(rest, (0, 0, 0, INDENT), expand=False), style=style)
    if table.caption:
        console.print(table.caption, style="italic dim", markup=False)


def _drivers_table(alert: Alert) -> Table:
    table = Table(
        "what", "seen", "usual here", "how rare", "among peers", "surprise", box=None, pad_edge=False
    )
    for driver, above in zip(alert.drivers, usual_above(alert.drivers), strict=True):
        rarity, surprise = _rarity_text(driver), f"{driver.surprise:.1f}"
        peers = formatting.RARITY_LABELS[driver.peers] if driver.peers else ""
        table.add_row(
            terminal_text(driver.feature),
            terminal_text(formatting.plain_value(driver.feature, driver.seen)),
            "as above" if above else terminal_text(formatting.plain_value(driver.feature, driver.expected)),
            rarity,
            peers,
            surprise,
        )
    return table


def _rarity_text(driver: SurpriseDriver) -> str:
    """Return the words for how rare a value is by itself, and whether only the combination with other values is unusual."""
    together = f", {formatting.UNUSUAL_TOGETHER}" if driver.unusual_together else ""
    return f"{formatting.RARITY_LABELS[driver.rarity]}{together}"


def _driver_lines(driver: SurpriseDriver, above: bool) -> tuple[Text, Text]:
    """Return a row of the drivers' table as two lines; without the usual value if the row `above` has it already."""
    peers = f", {formatting.RARITY_LABELS[driver.peers]} among peers" if driver.peers else ""
    rarity = f"{_rarity_text(driver)}{peers}, surprise {driver.surprise:.1f}"
    seen, expected = (formatting.plain_value(driver.feature, each) for each in (driver.seen, driver.expected))
    return (
        Text.assemble(terminal_text(driver.feature), ": ", terminal_text(seen, "bold")),
        Text.assemble(rarity, *(() if above else ("; usual here: ", terminal_text(expected)))),
    )


def _call_text(event: AlertEvent) -> str:
    return formatting.plain_actions(event.action_name)


def _print_curve(console: Console, curve: ActivityCurve) -> None:
    """Print the counted and the expected series on one scale, with a mark under each flagged interval."""
    width = min(len(curve.counts), max(20, console.width - CURVE_TEXT_WIDTH))
    first = len(curve.counts) - width
    marks = "".join("^" if first + place in curve.flagged else " " for place in range(width))
    unit = formatting.interval_unit(curve.interval_seconds)
    console.print()
    of = fingerprint_in_words(curve.entity)
    console.print(Text.assemble(terminal_text(curve.channel), f" per {unit} of ", terminal_text(of)))
    series = {"counted": curve.counts, "expected": curve.expected}
    highest = {
        name: max((value for value in values[-width:] if math.isfinite(value)), default=0.0)
        for name, values in series.items()
    }
    for name, values in series.items():
        line = sparkline(values, width, top=max(highest.values()))
        console.print(
            f"{name:<9}{line}  at most {formatting.format_figure(highest[name])}",
            soft_wrap=True,
            markup=False,
        )
    console.print(f"{'':<9}{marks}", soft_wrap=True, markup=False)


def most_telling(alert: Alert, events: Sequence[AlertEvent], most: int) -> list[AlertEvent]:
    """Return at most `most` events, in the order of time.

    >>> [event.action for event in most_telling(alert, alert.events, 2)]
    ['AssumeRole', 'StopLogging']

    The actions take turns, with CALLS_A_TURN events each, the gravest action first. Harmless actions follow, ordered by their
    strangest event. Within an action, events that succeeded come first, then the strangest.
    """
    gravest = {row.action: -place for place, row in enumerate(reversed(alert.impact_of), 1)}
    by_action: dict[str, list[AlertEvent]] = {}
    for event in sorted(
        events, key=lambda each: (bool(each.error_code), -_strangeness(each), each.event_time)
    ):
        by_action.setdefault(event.action_name, []).append(event)
    places = [
        ((turn // CALLS_A_TURN, gravest.get(name, 0), -_strangeness(called[0]), name, turn), event)
        for name, called in by_action.items()
        for turn, event in enumerate(called)
    ]
    chosen = [event for _, event in sorted(places, key=lambda each: each[0])[:most]]
    return sorted(chosen, key=lambda event: (event.event_time, event.event_id))


def _strangeness(event: AlertEvent) -> float:
    """Return the highest z of an event."""
    return max((z for z in event.scores.values() if z is not None), default=0.0)


def _print_events(console: Console, alert: Alert, events: Sequence[AlertEvent], style: str = "") -> None:
    shown = events if len(events) <= MAX_EVENTS_SHOWN else most_telling(alert, events, MAX_EVENTS_SHOWN)
    table = _events_table(shown)
    table.caption = "* flagged by this detector"
    if len(events) > len(shown):
        more = len(events) - len(shown)
        table.caption += (
            f"; the gravest and strangest, {more:,} more are not shown: --page FILE or --json shows all"
        )
    _print_rows(console, table, map(_event_lines, shown), style)


def _events_table(events: Sequence[AlertEvent]) -> Table:
    detectors = tuple(dict.fromkeys(name for event in events for name in event.scores))
    labels = (f"{detector_label(name).lower()} z" for name in detectors)
    table = Table("time (UTC)", "call", "resource", "error", "from", *labels, box=None, pad_edge=False)
    for event in events:
        table.add_row(
            _time_text(event),
            terminal_text(_call_text(event)),
            terminal_text(event.resource),
            terminal_text(event.error_code),
            terminal_text(event.source_address),
            *(_z_text(event, name) for name in detectors),
        )
    return table


def _event_lines(event: AlertEvent) -> tuple[Text, Text]:
    """Return a row of the events' table as two lines: time, call, resource and error; then address and z of each detector."""
    head = Text.assemble(_time_text(event), "  ", terminal_text(_call_text(event), "bold"))
    if event.resource:
        head.append(" on ").append_text(terminal_text(event.resource))
    if event.error_code:
        head.append(": ").append_text(terminal_text(event.error_code))
    z = {name: _z_text(event, name).replace(" *", "*") for name in event.scores}
    named = {name: text if text[:1].isalpha() else f"z {text}" for name, text in z.items() if text}
    scores = ", ".join(f"{detector_label(name).lower()} {text}" for name, text in named.items())
    return head, Text.assemble("from ", terminal_text(event.source_address), f"; {scores}" if scores else "")


def _time_text(event: AlertEvent) -> str:
    return format_iso(event.event_time)[:19].replace("T", " ")


def _z_text(event: AlertEvent, detector: str) -> str:
    """Return a detector's z of an event, with a star if it voted; empty if it has no opinion.

    Without a vote, a z that is too low for a second vote is `usual`: its figure says little.
    """
    z = event.scores.get(detector)
    if z is None:
        return ""
    if detector in event.flagged_by:
        return f"{z:.1f} *"
    return "usual" if z < SECOND_VOTE_THRESHOLD else f"{z:.1f}"
