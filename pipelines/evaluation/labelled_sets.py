"""Real attacks end to end, with default settings, after three different histories: what is found depends on the history.

Example:
    >>> figures = evaluate_labelled(Path("data/real/invictus_stratus"), History.SIMULATED, Settings(), no_progress)
    >>> figures["methods"]["fingerprint (2 of 3)"]["found"]      # of eight labelled sessions
    7

A labelled set is minutes or hours long. The histories before its judged part are
- own: the beginning of the set, which is mostly the attackers' own work
- cut away: the same, without the earlier events of the attacked principals, like a principal that is hours old
- simulated: weeks of a simulated organisation without attacks. Then the whole set follows, in a new account: the attacks and all
  events around them are real, the habits of the others are simulated.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

import numpy as np
import pandas as pd

from fingerprint.core.settings import Settings
from fingerprint.evaluation.labels import HistoryOverview, attack_labels, choose_split_time, read_labels
from fingerprint.evaluation.metrics import Figures
from fingerprint.sources.cloudtrail import samples
from pipelines.cli.console import Progress
from pipelines.evaluation.evaluate import OrganisationResult
from pipelines.evaluation.masquerade import DRAWS, evaluate_masquerade
from pipelines.evaluation.real_sets import (
    evaluate_folder,
    evaluate_records,
    has_attacks,
    pool_methods,
    read_events,
    real_sets,
)
from pipelines.simulate import DEFAULT_START, simulate_organisation

PRINCIPALS, DAYS = 100, 28  # of the simulated organisation
DAYS_BEFORE_END = 3  # day to which a set is moved; 28 days begin on a Monday, so it is a Friday


class History(StrEnum):
    """The history that the product has learned when a labelled set's attacks begin."""

    OWN = "own"
    CUT_AWAY = "cut away"
    SIMULATED = "simulated"


def evaluate_real_sets(settings: Settings, progress: Progress, more: Sequence[Path] = ()) -> Figures:
    """Return the figures of all real sets: those of the project, and those in the folders `more`.

    - `masquerade`: of every set in which sessions can be moved; `not_movable`: the names of the others
    - `labelled`: of every set with labelled attacks, after each history
    """
    sets = real_sets([samples.data_folder("real"), *more])
    moved = [evaluate_masquerade(folder, settings, progress, DRAWS) for folder in sets]
    return {
        "masquerade": [each for each in moved if each],
        "not_movable": [folder.name for folder, each in zip(sets, moved, strict=True) if not each],
        "labelled": [
            evaluate_labelled(folder, history, settings, progress)
            for folder in sets
            if has_attacks(folder)
            for history in History
        ],
    }


def evaluate_labelled(
    folder: Path,
    history: History,
    settings: Settings,
    progress: Progress,
    principals: int = PRINCIPALS,
    days: int = DAYS,
) -> Figures:
    """Return what every method finds on a labelled real set; `principals` and `days` are those of the simulated organisation.

    Raises FingerprintError if there is nothing to learn, or nothing to find.
    """
    if history is History.OWN:
        return _labelled_figures(folder, history, evaluate_folder(folder, settings, progress), 0)
    events, labels = read_events(folder, settings), read_labels([str(folder)])
    if history is History.CUT_AWAY:
        kept = without_history(events, attack_labels(labels))
        result = evaluate_records(events.loc[kept, "raw"], labels, settings, progress)
        return _labelled_figures(folder, history, result, int((~kept).sum()))
    with tempfile.TemporaryDirectory(prefix="fingerprint-") as temporary:
        merged = Path(temporary)
        simulate_organisation(principals, days, 0, merged, surprises=())
        day = DEFAULT_START + timedelta(days=days - DAYS_BEFORE_END)
        lines = "".join(line + "\n" for line in samples.moved_to_day(events["raw"].tolist(), day))
        (merged / "moved.jsonl.gz").write_bytes(gzip.compress(lines.encode(), 1))
        (merged / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels))
        return _labelled_figures(folder, history, evaluate_folder(merged, settings, progress), 0)


def without_history(events: pd.DataFrame, attacks: pd.DataFrame) -> pd.Series:
    """Return a mask (N,) of all events but those of attacked principals before the judged part."""
    overview = HistoryOverview(attacks)
    times = pd.to_datetime(events["seconds"], unit="s", utc=True).astype("datetime64[us, UTC]")
    overview.update(events.assign(event_time=times))
    at = overview.attacks.to_numpy(np.int64)
    cut = choose_split_time(overview.first, overview.last, at)
    labelled = events["event_id"].isin(attacks["event_id"]) & (events["seconds"] >= cut)
    attacked = events["principal"].isin(events.loc[labelled, "principal"].unique())
    return ~(attacked & (events["seconds"] < cut))


def _labelled_figures(folder: Path, history: History, result: OrganisationResult, cut_away: int) -> Figures:
    served = result.methods[0]
    return {
        "set": folder.name,
        "history": str(history),
        "cut_away": cut_away,
        "judged": result.about["events_judged"],
        "sessions": served["sessions"],
        "attack_events": result.about["attack_events"],
        "attack_events_flagged": served["per_event"]["found"],
        "methods": pool_methods([result]),
    }
