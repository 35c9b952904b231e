"""What is made of newcomers: attacks by principals hours old, and harmless first days, under several rules for a lone vote.

Example:
    $ fingerprint evaluate --newcomers --principals 100 --seed 201 --seed 202 --seed 203 --keep build/organisations
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import History
from fingerprint.compute import frames, hashing
from fingerprint.core.settings import Settings
from fingerprint.evaluation.label_files import read_labels
from fingerprint.evaluation.labels import DAY, find, labelled, truth, where_to_split
from fingerprint.evaluation.newcomers import KINDS, Cast, figures
from fingerprint.evaluation.overview import Overview
from fingerprint.evaluation.quorums import Panel
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import Ledger
from fingerprint.training import pipeline
from pipelines.cli.console import Progress
from pipelines.evaluation.evaluate import part
from pipelines.evaluation.organisations import simulated
from pipelines.evaluation.report import WIDTH
from pipelines.runtime import backend

SHARE = 0.3  # of the principals that are not robbed begin in the judged days
ATTACKS = 24  # sessions in each organisation
RULES = (None, 1.25, 1.0, 0.95, 0.9, 0.85, 0.8)  # share of the threshold that is enough; None: never enough


def newcomers(
    settings: Settings,
    progress: Progress,
    principals: int,
    days: int,
    seeds: Sequence[int],
    attacks: int | None = None,
    keep: Path | None = None,
) -> list[dict[str, Any]]:
    """Return what each rule of RULES shows of the seeds' organisations together (`newcomers.figures`)."""
    runs = []
    for seed in seeds:
        with simulated(
            principals, days, seed, attacks or ATTACKS, keep,
            lambda done, _: progress("simulating days", done, days),
        ) as folder:  # fmt: skip
            runs.append(_of_one(folder, settings, progress, seed))
    return [_together(same) for same in zip(*runs, strict=True)]


def _of_one(folder: Path, settings: Settings, progress: Progress, seed: int) -> list[dict[str, Any]]:
    known = truth(read_labels([str(folder)], None))
    with backend.history(settings) as history:
        for records in files.read([str(folder)], settings.reading):
            history.add(records)
            progress("reading records", history.records)
        cast, overview, cut = _cast(history, known, seed)
        bank = pipeline.train(_played(history, cast, settings, None, cut), settings, progress)
        judged = _judged(bank, _played(history, cast, settings, cut, None), settings, progress)
    columns = {f"{name}_{what}" for name in settings.voting.detectors for what in ("z", "vote")}
    table = labelled(judged, known).assign(**{name: judged[name] for name in sorted(columns)})
    size, days = len(overview.principals), (overview.last - cut) / DAY
    threshold = settings.autoencoder.threshold
    return [figures(table, cast, size, threshold, share, days) for share in RULES]


def _played(
    history: History, cast: Cast, settings: Settings, start: int | None, end: int | None
) -> Iterator[pd.DataFrame]:
    for events in part(history, start, end):
        now = cast.play(events, settings.entities).reset_index(drop=True)
        if len(now):
            yield now


def _judged(
    bank: Bank, events: Iterator[pd.DataFrame], settings: Settings, progress: Progress
) -> pd.DataFrame:
    panel = Panel(bank, Ledger.from_arrays(settings, bank.ledger), settings, {})
    for chunk in events:
        panel.walk(chunk)
        progress("scoring events", panel.tally.events)
    panel.finish()
    return panel.judged.table()


def _cast(history: History, known: pd.DataFrame, seed: int) -> tuple[Cast, Overview, int]:
    """Who is new and as whom the attacks come; and when judging begins."""
    overview = Overview(known)
    for events in history.chunks():
        overview.see(events)
    cut = where_to_split(overview.first, overview.last, overview.attacks.to_numpy(np.int64))
    active, rows = np.empty(0, np.uint64), []
    for events in part(history, cut, None):
        principal = hashing.of(events["principal"])
        active = np.union1d(active, principal)
        place = find(hashing.of(events["event_id"]), known)
        mine = place >= 0
        rows.append(
            pd.DataFrame(
                {
                    "session": known["session"].to_numpy(object)[place[mine]],
                    "began": frames.seconds(events["event_time"])[mine],
                    "principal": principal[mine],
                    "account": events["recipient_account"].to_numpy(object)[mine],
                }
            )
        )
    sessions = pd.concat(rows).sort_values("began").drop_duplicates("session")
    return Cast.of(active, sessions, known, cut, overview.last, SHARE, seed), overview, cut


def _together(same: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One rule's figures of several organisations."""
    added = {
        name: sum(each[name] for each in same) for name in ("principals", "newcomers", "newcomers_false")
    }
    counts = {
        name: {kind: sum(each[name][kind] for each in same) for kind in KINDS}
        for name in ("sessions", "found")
    }
    urgency = [each["newcomers_urgency"] for each in same if each["newcomers_urgency"] is not None]
    return {
        "share": same[0]["share"],
        **counts,
        **added,
        "false_a_day_per_100_principals": round(
            100 * sum(each["false_a_day"] for each in same) / added["principals"], 2
        ),
        "newcomers_urgency": max(urgency, default=None),
    }


def print_newcomers(rules: Sequence[dict[str, Any]]) -> None:
    """Print a row for each rule."""
    named = ("false a day/100", "newcomers", "false of them", "most urgent")
    table = Table("enough", *KINDS, *named, box=box.SIMPLE)
    for each in rules:
        share = "two of two" if each["share"] is None else f"{each['share']:g} x"
        found = (f"{each['found'][kind]} of {each['sessions'][kind]}" for kind in KINDS)
        urgency = each["newcomers_urgency"]
        table.add_row(
            share,
            *found,
            f"{each['false_a_day_per_100_principals']:.2f}",
            str(each["newcomers"]),
            str(each["newcomers_false"]),
            "-" if urgency is None else str(urgency),
        )
    Console(width=WIDTH).print(table)
