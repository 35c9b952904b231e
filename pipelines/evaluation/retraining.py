"""`fingerprint evaluate --retrain WEEKS`: a bank that is trained again each week, with the alerts of the weeks before.

Example:
    $ fingerprint evaluate --retrain 4 --worlds 2 --principals 100

`train` leaves out events that the alert store names, and decisions of analysts move thresholds. The other evaluations train once
on a history without alerts, so they show neither. Here the programs `train` and `score` themselves take turns for some weeks.
Each organisation is served three times, with different uses of the store; the bank that uses no store is the baseline.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from fingerprint.analysis.threshold_what_if import alert_session_pairs
from fingerprint.core.alert import Alert, Decision, Disposition
from fingerprint.core.settings import Settings
from fingerprint.evaluation.labels import attack_labels, read_labels
from fingerprint.evaluation.metrics import Figures
from fingerprint.registry.bank_files import open_bank
from fingerprint.registry.quality import alert_threshold
from fingerprint.simulation.world_parameters import DEFAULT_WORLD, WorldParameters
from fingerprint.store import open_store
from pipelines.cli.console import Progress, no_progress
from pipelines.evaluation.organisations import DEFAULT_ORGANISATION, Organisation, world_seeds
from pipelines.evaluation.report import CONSOLE_WIDTH
from pipelines.evaluation.side_by_side import run_tasks, workers_for
from pipelines.evaluation.worlds import FALSE_ALERTS
from pipelines.runtime.training_data import NO_DATABASE
from pipelines.score import score_sources
from pipelines.train import train_bank

WEEK_DAYS = 7


class StoreUse(NamedTuple):
    """A use of earlier alerts by a training: whether it reads them (`reads_alerts`), and whether all are `decided`, by labels."""

    name: str
    reads_alerts: bool
    decided: bool


NO_STORE = StoreUse("no store asked", False, False)
STORE_USES = (
    NO_STORE,
    StoreUse("nothing decided", True, False),
    StoreUse("all decided", True, True),
)


def evaluate_retraining(
    settings: Settings,
    progress: Progress,
    weeks: int,
    seeds: Sequence[int] = (0,),
    worlds: int | None = None,
    final: bool = False,
    organisation: Organisation = DEFAULT_ORGANISATION,
    workers: int | None = None,
) -> Figures:
    """Return the figures of `evaluate --retrain --json`: each organisation's weeks under each use of the store, and a summary.

    The days of `organisation` are learned before the first week; attacks are in the last quarter of all days. With `worlds`, as
    many worlds are drawn; otherwise the organisations of `seeds` are simulated. Raises FingerprintError for an impossible number
    of worlds.
    """
    drawn = (
        [(seed, WorldParameters.draw(seed)) for seed in world_seeds(worlds, final)]
        if worlds
        else [(seed, DEFAULT_WORLD) for seed in seeds]
    )
    principals = organisation.principals
    tasks = [
        RetrainingTask(seed, world, organisation.in_world(world), weeks, settings) for seed, world in drawn
    ]
    ran = run_tasks(tasks, workers or workers_for(len(tasks), principals), progress, "organisations")
    served = [{"seed": task.seed, "weeks": each} for task, each in zip(tasks, ran, strict=True)]
    return {"principals": principals, "served": served, "summary": _summarise(ran)}


@dataclass(frozen=True)
class RetrainingTask:
    """One organisation to serve for some weeks in a process of its own."""

    seed: int
    parameters: WorldParameters
    organisation: Organisation
    weeks: int
    settings: Settings

    def run(self, progress: Progress = no_progress) -> dict[str, list[Figures]]:
        """Simulate the organisation, unless it is kept from before, and serve it week by week, under each use of the store."""
        learned = self.organisation.days
        whole = replace(self.organisation, days=learned + WEEK_DAYS * self.weeks)
        with (
            whole.simulated(self.seed, self.parameters) as records,
            tempfile.TemporaryDirectory(prefix="fingerprint-retraining-") as work,
        ):
            first = ServedOrganisation(records, Path(work) / "first", self.settings)
            week = first.serve_week(learned, NO_STORE)  # there are no alerts yet: the same for each use
            return {
                use.name: [week, *self._later_weeks(first.copy_to(Path(work) / use.name), use, progress)]
                for use in STORE_USES
            }

    def _later_weeks(
        self, served: ServedOrganisation, use: StoreUse, progress: Progress
    ) -> Iterator[Figures]:
        for week in range(1, self.weeks):
            progress(f"weeks, {use.name}", week, self.weeks - 1)
            yield served.serve_week(self.organisation.days + WEEK_DAYS * week, use)


class ServedOrganisation:
    """The records of an organisation, one file a day, with the bank and the alert store that serve it, both in `folder`."""

    def __init__(self, records: Path, folder: Path, settings: Settings) -> None:
        self.records, self.folder, self.settings = records, folder, settings
        self.bank, self.database = folder / "bank", f"sqlite:///{folder / 'alerts.sqlite'}"
        self.days = sorted(str(file) for file in records.glob("????-??-??.jsonl.gz"))
        self.session_of = attack_labels(read_labels([str(records)])).set_index("event_id")["session"]
        folder.mkdir(exist_ok=True)

    def copy_to(self, folder: Path) -> ServedOrganisation:
        """Return a copy of the bank and the store in another folder, which is served independently."""
        shutil.copytree(self.folder, folder)
        return ServedOrganisation(self.records, folder, self.settings)

    def serve_week(self, begin: int, use: StoreUse) -> Figures:
        """Train on the days before day `begin`, as many as `retrain` reads, score the next seven, and return their figures."""
        before = self._alerts()
        if use.decided:
            self._decide(before)
        first = max(begin - round(self.settings.retraining.history_days), 0)
        trained = train_bank(
            self.days[first:begin], self.bank, self.settings, no_progress,
            store=self.database if use.reads_alerts else NO_DATABASE,
        )  # fmt: skip
        week, scored = self.days[begin : begin + WEEK_DAYS], self.folder / "scored.parquet"
        score_sources(week, self.bank, self.settings, no_progress, self.database, scored)
        known = {alert.alert_id for alert in before}
        alerts = [alert for alert in self._alerts() if alert.alert_id not in known]
        about = self._about(alerts)
        false = len(alerts) - about["group"].nunique()
        quality = open_bank(self.bank, self.settings.bank).manifest["quality"]
        events = pd.read_parquet(scored, columns=["event_id", "principal"])
        active = int(events["principal"].nunique())
        return {
            "principals": active,
            "alerts": len(alerts),
            FALSE_ALERTS: round(100 * false / WEEK_DAYS / active, 4),
            "sessions": int(self.session_of.reindex(events["event_id"]).nunique()),
            "found": int(about["session"].nunique()),
            "threshold": round(alert_threshold(quality, self.settings.alerts), 4),
            "promoted": bool(trained["served"]),
            "left_out": trained["left_out"],
        }

    def _alerts(self) -> list[Alert]:
        with closing(open_store(self.database)) as store:
            return store.alerts.by_urgency(raw=False)

    def _decide(self, alerts: Sequence[Alert]) -> None:
        """Decide every alert by its labels, an hour after its last event. A second call for the same alert changes nothing."""
        attacks = set(self._about(alerts)["group"])
        with closing(open_store(self.database)) as store:
            for alert in alerts:
                decision: Decision = "true_positive" if alert.alert_id in attacks else "benign"
                at = alert.last_event_time + timedelta(hours=1)
                store.cases.add_disposition(
                    Disposition(alert.alert_id, decision, "evaluation", "its labels", at, len(alert.events))
                )

    def _about(self, alerts: Sequence[Alert]) -> pd.DataFrame:
        """Return pairs of an alert (`group`) and an attack session that it shows, by the rule of all evaluations."""
        rows = [
            (alert.alert_id, event.event_time, self.session_of.get(event.event_id))
            for alert in alerts
            for event in alert.events
        ]
        return alert_session_pairs(pd.DataFrame(rows, columns=["group", "event_time", "session"]))


# --- summary ------------------------------------------------------------------------------------------------


def _summarise(served: Sequence[dict[str, list[Figures]]]) -> list[Figures]:
    """Return a row for every use of the store and week: figures of all organisations, and the most false alerts of one."""
    out = []
    for use in STORE_USES:
        for number, same in enumerate(zip(*(each[use.name] for each in served), strict=True), 1):
            false = [week[FALSE_ALERTS] for week in same]
            out.append(
                {
                    "store": use.name,
                    "week": number,
                    "mean_false_alerts": round(sum(false) / len(false), 4),
                    "most_false_alerts": max(false),
                    "sessions": sum(week["sessions"] for week in same),
                    "found": sum(week["found"] for week in same),
                    "promoted": sum(week["promoted"] for week in same),
                    "organisations": len(same),
                }
            )
    return out


def print_retraining(figures: Figures) -> None:
    """Print a row for each use of the store and week."""
    table = Table(
        "alert store", "week", "false alerts a day/100", "most", "found", "banks promoted", box=box.SIMPLE
    )
    for each in figures["summary"]:
        table.add_row(
            each["store"] if each["week"] == 1 else "",
            str(each["week"]),
            f"{each['mean_false_alerts']:.2f}",
            f"{each['most_false_alerts']:.2f}",
            f"{each['found']} of {each['sessions']}" if each["sessions"] else "-",
            f"{each['promoted']} of {each['organisations']}",
        )
    console = Console(width=CONSOLE_WIDTH)
    console.print(table)
    console.print(
        "A bank that is trained with its store should alert as one that asks none; the last rows say what decisions change.",
        style="dim",
        highlight=False,
    )
