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

from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import printable
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
MARK = ".demo"  # a file in the folder of a demo
SQLITE_ENDINGS = ("-wal", "-shm", "-journal")  # of files beside a database
DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY")  # one of these is set if windows can open


@dataclass(frozen=True)
class DemoFolder:
    """The files and folders that the demo writes."""

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
        return f"sqlite:///{self.database_file}"

    @property
    def pages(self) -> Path:
        """Folder of the static pages."""
        return self.out / "pages"

    @property
    def database_file(self) -> Path:
        """File of the alert store."""
        return self.out / "alerts.sqlite"

    def clear(self) -> None:
        """Create the folder, and remove an earlier demo from it. Raise FingerprintError if it holds anything else.

        The folder of a demo has a mark, which is written first and stays. So a demo that was stopped can be run again.
        """
        found = sorted(each.name for each in self.out.iterdir()) if self.out.is_dir() else []
        made = {MARK, *(each.name for each in (self.records, self.bank, self.pages))}
        made |= {f"{self.database_file.name}{end}" for end in ("", *SQLITE_ENDINGS)}
        other = [name for name in found if name not in made]
        is_demo = (self.out / MARK).exists() or attack_labels(self.records).exists()
        if found and (other or not is_demo):
            raise FingerprintError(
                f"--out {self.out}: the demo replaces all that is in its folder, and this one holds "
                f"{printable((other or found)[0][:80])!r}, which is not of a demo: name a new folder"
            )
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / MARK).touch()
        # One by one: the folder may be a link, or the root of a volume.
        for each in (self.out / name for name in found if name != MARK):
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()

    @property
    def serve_command(self) -> str:
        """Command line that opens the queue, to be copied."""
        return console.command_line("serve", "--database", self.database_url, "--bank", str(self.bank))


def run_demo(folder: DemoFolder, settings: Settings, today: date, until: str = "today") -> None:
    """Fill the folder with records, a bank, a database and pages; print the alerts and compare them with the labels.

    The records end at midnight (UTC), at the start of `until`: a date, or `today`, so that retention does not remove the alerts
    and pages that filter by age show them. The same `until` gives the same alerts.
    """
    folder.clear()
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
    for session in attack_sessions(attack_labels(folder.records), found):
        print(describe_session(session))
    print(f"\nthe queue and every alert as pages: {write_queue_page(alerts, folder.pages)}")
    print(f"open the queue in a browser:\n  {folder.serve_command}")


def attack_labels(records: Path) -> Path:
    """Return the file that labels the attack records of a folder."""
    return records / "labels.jsonl"


def describe_session(session: AttackSession) -> str:
    """Return the sentence that says whether an attack was found."""
    verdict = "FOUND " if session.in_alerts else "MISSED"
    principal = console.escape_control_characters(session.principal)
    counts = (
        f"{session.strength} of {session.calls} calls as {principal}, {session.in_alerts} of them in alerts"
    )
    return f"{verdict} {session.name}: {counts}"


def browser_opener() -> Callable[[str], object] | None:
    """Return a function that opens a URL in the browser of this machine; None if no window can open."""
    if not any(os.environ.get(name) for name in DISPLAY_VARIABLES):
        return None
    try:
        webbrowser.get()
    except webbrowser.Error:
        return None
    return webbrowser.open
