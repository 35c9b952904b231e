"""`fingerprint evaluate --newcomers`: attacks by principals that are hours old, and harmless first days, under several rules.

A rule says which z of the autoencoder is enough for a verdict if no second detector has an opinion.

Example:
    $ fingerprint evaluate --newcomers --principals 100 --seed 201 --seed 202 --seed 203 --keep build/organisations
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.compute import frames, hashing
from fingerprint.core.alert import NEWCOMER_COLUMN, vote_column, z_column
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.detection.detectors import detector_names
from fingerprint.evaluation.labels import (
    HistoryOverview,
    attack_labels,
    choose_split_time,
    find_label_rows,
    join_labels,
    read_labels,
)
from fingerprint.evaluation.metrics import Figures
from fingerprint.evaluation.newcomers import ATTACKER_KINDS, NewcomerScenario, newcomer_metrics
from fingerprint.evaluation.quorums import MultiQuorumPipeline
from fingerprint.registry import quality
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import ScorerState
from fingerprint.training import pipeline
from pipelines.cli.console import Progress
from pipelines.evaluation.backtest import events_between
from pipelines.evaluation.organisations import DEFAULT_ORGANISATION, Organisation
from pipelines.evaluation.report import CONSOLE_WIDTH
from pipelines.runtime import backend

NEWCOMER_SHARE = 0.3  # share of the principals without an attack that are new in the judged days
ATTACK_COUNT = 24  # sessions in each organisation
# Shares of the threshold that are enough for a verdict; None: the autoencoder alone is never enough
SUPPORT_RULES = (None, 1.25, 1.0, 0.95, 0.9, 0.85, 0.8)


def evaluate_newcomers(
    settings: Settings,
    progress: Progress,
    seeds: Sequence[int],
    organisation: Organisation = DEFAULT_ORGANISATION,
) -> Figures:
    """Return `rules`: the figures of each of SUPPORT_RULES over all organisations (`evaluation.newcomers`)."""
    attacked, runs = replace(organisation, attacks=organisation.attacks or ATTACK_COUNT), []
    for number, seed in enumerate(seeds, 1):
        progress("organisations", number, len(seeds))
        with attacked.simulated(seed, progress=progress) as folder:
            runs.append(_evaluate_organisation(folder, settings, progress, seed))
    return {"rules": [_pool_organisations(same) for same in zip(*runs, strict=True)]}


def _evaluate_organisation(
    folder: Path, settings: Settings, progress: Progress, seed: int
) -> list[dict[str, Any]]:
    labels = attack_labels(read_labels([str(folder)], None))
    with backend.open_history(settings) as history:
        history.add_batches(files.read_sources([str(folder)], settings.reading), progress)
        scenario, overview, cut = _assign_roles(history, labels, seed)
        bank = pipeline.train(
            _replay_as_newcomers(history, scenario, settings, None, cut), settings, progress
        )
        judged = _score_events(
            bank, _replay_as_newcomers(history, scenario, settings, cut, None), settings, progress
        )
    columns = {column(name) for name in detector_names(settings) for column in (z_column, vote_column)}
    columns |= {NEWCOMER_COLUMN}
    table = join_labels(judged, labels).assign(**{name: judged[name] for name in sorted(columns)})
    size, days = len(overview.principals), (overview.last - cut) / DAY_SECONDS
    threshold = quality.alert_threshold(bank.manifest["quality"], settings.alerts)
    return [newcomer_metrics(table, scenario, size, threshold, share, days) for share in SUPPORT_RULES]


def _replay_as_newcomers(
    history: EventSpool, scenario: NewcomerScenario, settings: Settings, start: int | None, end: int | None
) -> Iterator[pd.DataFrame]:
    for events in events_between(history, start, end):
        now = scenario.apply(events, settings.entities).reset_index(drop=True)
        if len(now):
            yield now


def _score_events(
    bank: Bank, events: Iterator[pd.DataFrame], settings: Settings, progress: Progress
) -> pd.DataFrame:
    panel = MultiQuorumPipeline(bank, ScorerState.from_arrays(settings, bank.scorer_state), settings, {})
    for chunk in events:
        panel.process(chunk)
        progress("scoring events", panel.counters.events)
    panel.flush()
    return panel.scored_events.to_frame()


def _assign_roles(
    history: EventSpool, labels: pd.DataFrame, seed: int
) -> tuple[NewcomerScenario, HistoryOverview, int]:
    """Return who is new and as whom each attack comes, an overview of the history, and the time when scoring begins."""
    overview = HistoryOverview(labels)
    for events in history.batches():
        overview.update(events)
    cut = choose_split_time(overview.first, overview.last, overview.attacks.to_numpy(np.int64))
    active, rows = np.empty(0, np.uint64), []
    for events in events_between(history, cut, None):
        active = np.union1d(active, hashing.hash_strings(events["principal"]))
        rows.append(_attack_rows(events, labels))
    sessions = pd.concat(rows).sort_values("began").drop_duplicates("session")
    scenario = NewcomerScenario.create(active, sessions, labels, cut, overview.last, NEWCOMER_SHARE, seed)
    return scenario, overview, cut


def _attack_rows(events: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Return session, time, principal (hash) and account of a chunk's attack events."""
    row = find_label_rows(hashing.hash_strings(events["event_id"]), labels)
    attack = row >= 0
    return pd.DataFrame(
        {
            "session": labels["session"].to_numpy(object)[row[attack]],
            "began": frames.epoch_seconds(events["event_time"])[attack],
            "principal": hashing.hash_strings(events["principal"])[attack],
            "account": events["recipient_account"].to_numpy(object)[attack],
        }
    )


def _pool_organisations(same: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of one rule over several organisations."""
    added = {
        name: sum(each[name] for each in same) for name in ("principals", "newcomers", "newcomers_false")
    }
    counts = {
        name: {kind: sum(each[name][kind] for each in same) for kind in ATTACKER_KINDS}
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


def print_newcomers(figures: Figures) -> None:
    """Print a row for each rule."""
    named = ("false a day/100", "newcomers", "false of them", "most urgent")
    table = Table("enough", *ATTACKER_KINDS, *named, box=box.SIMPLE)
    for each in figures["rules"]:
        share = "two of two" if each["share"] is None else f"{each['share']:g} x"
        found = (f"{each['found'][kind]} of {each['sessions'][kind]}" for kind in ATTACKER_KINDS)
        urgency = each["newcomers_urgency"]
        table.add_row(
            share,
            *found,
            f"{each['false_a_day_per_100_principals']:.2f}",
            str(each["newcomers"]),
            str(each["newcomers_false"]),
            "-" if urgency is None else str(urgency),
        )
    Console(width=CONSOLE_WIDTH).print(table)
