"""The whole detection pipeline once, on one machine: simulate, train, score, show the alerts.

Example:
    $ fingerprint demo --until 2026-01-25        # the same records, bank and alerts each time; without --until it ends today
    ...
    open the queue in a browser:
      fingerprint serve --database sqlite:///build/demo/alerts.sqlite --bank build/demo/bank
"""

from __future__ import annotations

import json
import os
import shutil
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from fingerprint.core.settings import Settings
from fingerprint.store import open_store
from fingerprint.web.static_report import write_queue_page
from pipelines.cli import console
from pipelines.commands.alerts import list_alerts
from pipelines.score import score_sources
from pipelines.simulate import (
    ATTACKS,
    DAYS,
    PRINCIPALS,
    SEED,
    first_day,
    simulate_organisation,
    training_days,
)
from pipelines.train import train_bank

TRAINING_DAYS = training_days(DAYS)
DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY")  # one of them is set where windows can open


@dataclass(frozen=True)
class DemoFolder:
    """The places of what the demo makes."""

    out: Path

    @property
    def records(self) -> Path:
        """Folder of the records, a file a day, and their labels."""
        return self.out / "records"

    @property
    def bank(self) -> Path:
        """Folder of the bank."""
        return self.out / "bank"

    @property
    def database_url(self) -> str:
        """URL of the alert store."""
        return f"sqlite:///{self.out / 'alerts.sqlite'}"

    @property
    def serve_command(self) -> str:
        """Command line that opens the queue, to be copied."""
        return console.command_line("serve", "--database", self.database_url, "--bank", str(self.bank))


def run_demo(folder: DemoFolder, settings: Settings, today: date, until: str = "today") -> None:
    """Fill the folder with records, a bank, a database and pages; print the alerts and compare them with the labels.

    The records end at the midnight (UTC) with which `until` begins, a date or `today`: what a store keeps for a time, and what
    is looked at by age, is new on the day the demo is run. The same `until` gives the same alerts.
    """
    shutil.rmtree(folder.out, ignore_errors=True)
    with console.progress_bars() as progress:
        simulated = simulate_organisation(
            PRINCIPALS,
            DAYS,
            SEED,
            folder.records,
            ATTACKS,
            start=first_day(until, DAYS, today),
            sharp=True,
            progress=lambda done, _: progress("simulating days", done, DAYS),
        )
        days = [str(file) for file in sorted(folder.records.glob("*.jsonl.gz"))]
        trained = train_bank(days[:TRAINING_DAYS], folder.bank, settings, progress)
        scored = score_sources(
            days[TRAINING_DAYS:], folder.bank, settings, progress, database_url=folder.database_url
        )
    console.print_simulation(console.simulation_figures(simulated, DAYS))
    console.print_training(trained)
    console.print_scoring(scored, folder.database_url)
    list_alerts(folder.database_url)
    alerts = open_store(folder.database_url).alerts.by_urgency()
    found = {event for alert in alerts for event in alert.event_ids}
    for session in attack_sessions(folder.records / "labels.jsonl", found):
        print(session.sentence)
    print(f"\nthe queue and every alert as pages: {write_queue_page(alerts, folder.out / 'pages')}")
    print(f"open the queue in a browser:\n  {folder.serve_command}")


@dataclass(frozen=True)
class AttackSession:
    """A simulated attack, and how many of its calls are in alerts."""

    name: str
    strength: str
    principal: str
    calls: int
    in_alerts: int

    @property
    def sentence(self) -> str:
        """Say whether it was found."""
        verdict = "FOUND " if self.in_alerts else "MISSED"
        principal = console.escape_control_characters(self.principal)
        counts = f"{self.strength} of {self.calls} calls as {principal}, {self.in_alerts} of them in alerts"
        return f"{verdict} {self.name}: {counts}"


def attack_sessions(labels: Path, found: set[str]) -> list[AttackSession]:
    """Return the spliced attack sessions of labels.jsonl; `found` are the ids of the events that are in alerts."""
    sessions: dict[str, list[dict[str, str]]] = {}
    for line in labels.read_text().splitlines():
        label = json.loads(line)
        sessions.setdefault(label["session"], []).append(label)
    return [
        AttackSession(
            name,
            events[0]["strength"],
            events[0]["principal"].split(":", 5)[-1],
            len(events),
            sum(event["event_id"] in found for event in events),
        )
        for name, events in sorted(sessions.items())
    ]


def browser_opener() -> Callable[[str], object] | None:
    """Return a function that opens a URL in the browser of this machine; None where no window can open."""
    if not any(os.environ.get(name) for name in DISPLAY_VARIABLES):
        return None
    try:
        webbrowser.get()
    except webbrowser.Error:
        return None
    return webbrowser.open
