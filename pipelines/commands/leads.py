"""Leads on a terminal: `fingerprint alerts leads`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fingerprint.adapters.system import SystemClock
from fingerprint.analysis.leads import Lead, recent_leads
from fingerprint.analysis.threshold_service import ThresholdForecast
from fingerprint.core.alert import GRAVE_OR_SEVERE
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import format_iso
from fingerprint.store import open_store
from fingerprint.web import formatting
from pipelines.commands.alerts import parse_since
from pipelines.commands.terminal import terminal_text


def list_leads(
    database_url: str, settings: Settings, since: str | None, limit: int, bank: Path | None = None
) -> dict[str, Any]:
    """Return the leads as `alerts leads --json` prints them; `bank` gives the z of the alert budget."""
    clock = SystemClock()
    with closing(open_store(database_url, create=False)) as store:
        earliest = parse_since(since, clock.now()) if since else None
        threshold = ThresholdForecast(store, bank, settings, clock).known_threshold()
        start, found = recent_leads(store, settings, earliest, clock, limit)
    return {
        "since": format_iso(start),
        "threshold": threshold,
        "suppressed": found.suppressed,
        "leads": [_to_json(lead) for lead in found.leads],
    }


def print_leads(figures: dict[str, Any]) -> None:
    """Print leads as a table, and the reach that an alert needs."""
    if not figures["leads"]:
        print(f"no leads since {figures['since']}: nothing outside the alerts came near to one")
    else:
        Console(highlight=False).print(_table(figures["leads"]))
        if figures["threshold"] is not None:
            print(
                f"an alert needs a reach of {figures['threshold']:.2f}; leads are no alerts, and are sent nowhere"
            )
    if figures["suppressed"]:
        print(
            f"{formatting.pluralize(figures['suppressed'], 'lead')} more, suppressed: `fingerprint suppressions list`"
        )


def _to_json(lead: Lead) -> dict[str, Any]:
    times = {name: format_iso(getattr(lead, name)) for name in ("first_event_time", "last_event_time")}
    return {
        "principal": lead.principal,
        **times,
        "reach": lead.reach,
        "events": lead.events,
        "actions": list(lead.actions),
        "action_count": lead.action_count,
        "gravity": lead.gravity,
        "effect": lead.effect,
        "detectors": list(lead.detectors),
        "newcomer": lead.newcomer,
    }


def _table(leads: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name, wraps in (
        ("reach", False),
        ("principal", True),
        ("what was called", True),
        ("when (UTC)", False),
    ):
        table.add_column(name, no_wrap=not wraps, overflow="fold")
    for lead in leads:
        more = lead["action_count"] - len(lead["actions"])
        called = ", ".join(lead["actions"]) + (f" and {formatting.pluralize(more, 'other')}" if more else "")
        called += f" ({formatting.pluralize(lead['events'], 'event')})"
        name = formatting.short_principal(lead["principal"])
        what = terminal_text(called)
        if lead["gravity"] in GRAVE_OR_SEVERE:
            what += Text("\n") + terminal_text(f"{lead['gravity']}: {lead['effect']}")
        account = lead["principal"].removesuffix(name).rstrip(":")
        new = Text(" new", "bold") if lead["newcomer"] else Text()
        table.add_row(
            f"{lead['reach']:.2f}",
            terminal_text(name) + new + Text(f"\n{account}" if account else "", "dim"),
            what,
            lead["first_event_time"][:16].replace("T", " "),
        )
    return table
