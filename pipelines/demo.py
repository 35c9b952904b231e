"""The whole detection pipeline once, on one machine: simulate, train, score, show the alerts.

Example:
    $ fingerprint demo --until 2026-01-25        # the same records, bank and alerts each time; without --until it ends today
    ...
    open the queue in a browser:
      fingerprint serve --database sqlite:///build/demo/alerts.sqlite --bank build/demo/bank
"""

from __future__ import annotations

import os
import shutil
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from fingerprint.core.settings import Settings
from fingerprint.evaluation.attack_sessions import AttackSession, attack_sessions
from fingerprint.store import open_store
from fingerprint.web.static_report import write_queue_page
from pipelines.cli import console
from pipelines.commands.alerts import list_alerts
from pipelines.score import score_sources
from pipelines.simulate import SimulatedOrganisation, training_days
from pipelines.train import train_bank

ORGANISATION = SimulatedOrganisation()
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
        simulated = ORGANISATION.write_records(
            folder.records,
            until,
            today,
            lambda done, _: progress("simulating days", done, ORGANISATION.days),
        )
        days = [str(file) for file in sorted(folder.records.glob("*.jsonl.gz"))]
        past = training_days(len(days))
        trained = train_bank(days[:past], folder.bank, settings, progress)
        scored = score_sources(days[past:], folder.bank, settings, progress, database_url=folder.database_url)
    console.print_simulation(console.simulation_figures(simulated, ORGANISATION.days))
    console.print_training(trained)
    console.print_scoring(scored, folder.database_url)
    list_alerts(folder.database_url)
    alerts = open_store(folder.database_url).alerts.by_urgency()
    found = {event for alert in alerts for event in alert.event_ids}
    for session in attack_sessions(folder.records / "labels.jsonl", found):
        print(describe_session(session))
    print(f"\nthe queue and every alert as pages: {write_queue_page(alerts, folder.out / 'pages')}")
    print(f"open the queue in a browser:\n  {folder.serve_command}")


def describe_session(session: AttackSession) -> str:
    """Return a sentence that says whether an attack was found."""
    verdict = "FOUND " if session.in_alerts else "MISSED"
    principal = console.escape_control_characters(session.principal)
    counts = (
        f"{session.strength} of {session.calls} calls as {principal}, {session.in_alerts} of them in alerts"
    )
    return f"{verdict} {session.name}: {counts}"


def browser_opener() -> Callable[[str], object] | None:
    """Return a function that opens a URL in the browser of this machine; None where no window can open."""
    if not any(os.environ.get(name) for name in DISPLAY_VARIABLES):
        return None
    try:
        webbrowser.get()
    except webbrowser.Error:
        return None
    return webbrowser.open
