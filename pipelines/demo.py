"""The whole detection pipeline once, on one machine: simulate, train, score, show the alerts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from fingerprint.core.settings import Settings
from fingerprint.store import open_store
from fingerprint.web.static_report import write_queue_page
from pipelines.cli import console
from pipelines.commands.alerts import list_alerts
from pipelines.score import score_sources
from pipelines.simulate import ATTACKS, DAYS, PRINCIPALS, SEED, simulate_organisation, training_days
from pipelines.train import train_bank

TRAINING_DAYS = training_days(DAYS)


def run_demo(out: Path, settings: Settings) -> None:
    """Fill `out` with records, a bank, a database and pages; print the alerts and compare them with the labels."""
    shutil.rmtree(out, ignore_errors=True)
    records, bank, database_url = out / "records", out / "bank", f"sqlite:///{out / 'alerts.sqlite'}"
    with console.progress_bars() as progress:
        simulated = simulate_organisation(
            PRINCIPALS,
            DAYS,
            SEED,
            records,
            ATTACKS,
            progress=lambda done, _: progress("simulating days", done, DAYS),
        )
        days = [str(file) for file in sorted(records.glob("*.jsonl.gz"))]
        trained = train_bank(days[:TRAINING_DAYS], bank, settings, progress)
        scored = score_sources(days[TRAINING_DAYS:], bank, settings, progress, database_url=database_url)
    console.print_simulation(console.simulation_figures(simulated, DAYS))
    console.print_training(trained)
    console.print_scoring(scored)
    list_alerts(database_url)
    alerts = open_store(database_url).alerts.by_urgency()
    _print_attacks_found({event for alert in alerts for event in alert.event_ids}, records / "labels.jsonl")
    print(f"\nthe queue and every alert as pages: {write_queue_page(alerts, out / 'pages')}")


def _print_attacks_found(found: set[str], labels: Path) -> None:
    """Say which spliced attack sessions the alerts hold."""
    sessions: dict[str, list[dict[str, str]]] = {}
    for line in labels.read_text().splitlines():
        label = json.loads(line)
        sessions.setdefault(label["session"], []).append(label)
    for name, events in sorted(sessions.items()):
        flagged = sum(event["event_id"] in found for event in events)
        first = events[0]
        verdict = "FOUND " if flagged else "MISSED"
        principal = console.escape_control_characters(first["principal"].split(":", 5)[-1])
        print(
            f"{verdict} {name}: {first['strength']} of {len(events)} calls as {principal}, {flagged} of them in alerts"
        )
