"""Masquerade on real logs: calls of one principal made with the identity of another, which must be found. No simulator is needed.

Example:
    >>> figures = evaluate_masquerade(Path("data/real/prod_slice_anonymised"), Settings(), no_progress)
    >>> figures["methods"]["log-rarity"]["recall_per_100"]      # at 1, 5 and 20 alerts a day per 100 principals
    {'1': 0.22, '5': 0.56, '20': 0.83}

Another one's real work under one's name (Schonlau et al. 2001): what stays of a session that is moved is its calls, times, tool
and addresses; identity and account become the victim's. The donor keeps what it did. The real sets that travel with the project
are minutes long, so a victim is known by minutes: the figures compare methods on real records, they do not say what a history of
weeks would find. A span of less than a day counts as a day, as a principal has one alert in it.

A labelled set is evaluated end to end, and once more with the history of its attacked principals cut away: a thief whose
principal is hours old.
"""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fingerprint.compute import frames
from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.evaluation.labels import HistoryOverview, attack_labels, choose_split_time, read_labels
from fingerprint.evaluation.metrics import Figures
from fingerprint.evaluation.statistics import pool_figures
from fingerprint.sources.cloudtrail import samples
from pipelines.cli.console import Progress
from pipelines.evaluation.backtest import read_history
from pipelines.evaluation.evaluate import EvaluationOptions, OrganisationEvaluation, OrganisationResult

LEARNED_SHARE = 3 / 5  # of the span
MIN_KNOWN_EVENTS = 5  # of a victim, in what is learned: else there is no one to pretend to be
MIN_SESSION_EVENTS, MAX_SESSION_EVENTS = 3, 20  # of a donor, in what is judged
VICTIM_SHARE = 0.1  # of the principals, at most: in a queue of victims every alert is right
DRAWS = 3  # of victims and donors
PEOPLE_AND_ROLES = (
    "person",
    "user",
    "root",
    "role",
    "federated",
    "account",
)  # a service's identity cannot be stolen
OPTIONS = EvaluationOptions(peers=True, third=False, terms=False)


class MovedSession(NamedTuple):
    """A session of `donor` that is made with the identity of `victim`: rows of the set's table of events."""

    victim: str
    donor: str
    rows: list[int]


def evaluate_masquerade(
    folder: Path, settings: Settings, progress: Progress, draws: int = DRAWS
) -> Figures | None:
    """Return what every method finds of sessions moved on one real set; None where no principal is known or none can be moved."""
    events = _read_events(folder, settings)
    results = []
    for seed in range(draws):
        moved = draw_sessions(events, seed)
        if moved:
            results.append(_evaluate_moved(events, moved, settings, progress))
    if not results:
        return None
    return {
        "set": folder.name,
        "records": len(events),
        "principals": int(events["principal"].nunique()),
        "minutes": round(float(events["seconds"].max() - events["seconds"].min()) / 60, 1),
        "draws": len(results),
        "sessions": sum(result.about["attack_sessions"] for result in results),
        "methods": _pooled_methods(results),
    }


def evaluate_labelled(folder: Path, settings: Settings, progress: Progress, young: bool) -> Figures:
    """Return what every method finds on a labelled real set; `young`: the attacked principals' history is cut away.

    Raises FingerprintError where nothing is learned, or there is nothing to find.
    """
    if not young:
        result = OrganisationEvaluation([str(folder)], settings, progress, OPTIONS).run()
        return _labelled_figures(folder, result, 0)
    events = _read_events(folder, settings)
    labels = read_labels([str(folder)])
    kept = without_history(events, attack_labels(labels))
    result = _evaluate_records(events.loc[kept, "raw"], labels, settings, progress)
    return _labelled_figures(folder, result, int((~kept).sum()))


def _labelled_figures(folder: Path, result: OrganisationResult, cut_away: int) -> Figures:
    served = result.methods[0]
    return {
        "set": folder.name,
        "cut_away": cut_away,
        "judged": result.about["events_judged"],
        "sessions": served["sessions"],
        "attack_events": result.about["attack_events"],
        "attack_events_flagged": served["per_event"]["found"],
        "methods": _pooled_methods([result]),
    }


def _pooled_methods(results: Sequence[OrganisationResult]) -> dict[str, Figures]:
    """Return by method how many sessions are found, at its threshold and per 100 principals, all draws together."""
    out = {}
    for same in zip(*(result.methods for result in results), strict=True):
        names = ("sessions", "found", "found_per_100")
        counts = [
            {**{name: method[name] for name in names}, "alerts": method["per_session"]["reported"]}
            for method in same
        ]
        pooled = pool_figures(counts)
        there = max(pooled["sessions"], 1)
        shares = {budget: round(found / there, 4) for budget, found in pooled["found_per_100"].items()}
        out[same[0]["name"]] = {"role": same[0]["role"], **pooled, "recall_per_100": shares}
    return out


def real_sets(folders: Sequence[Path]) -> list[Path]:
    """Return the real sets in some folders: each a folder with records of its own name. One name counts once."""
    found = [
        each
        for folder in folders
        for each in sorted(folder.iterdir())
        if (each / f"{each.name}.jsonl.gz").is_file()
    ]
    return list({each.name: each for each in reversed(found)}.values())[::-1]


def has_attacks(folder: Path) -> bool:
    """Return whether labels beside the records say which events are an attack's."""
    try:
        return len(attack_labels(read_labels([str(folder)]))) > 0
    except FingerprintError:
        return False


def evaluate_real_sets(
    settings: Settings, progress: Progress, more: Sequence[Path] = (), draws: int = DRAWS
) -> Figures:
    """Return `masquerade`, of every real set in which sessions can be moved, and `labelled`, of those with labelled attacks.

    The sets are those of the project, and those in the folders `more`.
    """
    sets = real_sets([samples.data_folder("real"), *more])
    moved = [evaluate_masquerade(folder, settings, progress, draws) for folder in sets]
    return {
        "masquerade": [each for each in moved if each],
        "not_movable": [folder.name for folder, each in zip(sets, moved, strict=True) if not each],
        "labelled": [
            evaluate_labelled(folder, settings, progress, young)
            for folder in sets
            if has_attacks(folder)
            for young in (False, True)
        ],
    }


# --- records --------------------------------------------------------------------------------------------------------


def _read_events(folder: Path, settings: Settings) -> pd.DataFrame:
    """Return a set's events in the order of time: event_id, principal, kind, seconds, raw (the record)."""
    with read_history([str(folder)], settings) as history:
        parts = [
            events[["event_id", "principal", "kind", "raw"]].assign(
                seconds=frames.epoch_seconds(events["event_time"])
            )
            for events in history.batches()
        ]
    if not parts:
        raise FingerprintError(f"no event in {folder}: there is nothing to evaluate")
    events = pd.concat(parts, ignore_index=True).drop_duplicates(["event_id", "principal"])
    return events.sort_values("seconds", kind="stable", ignore_index=True)


def draw_sessions(events: pd.DataFrame, seed: int) -> list[MovedSession]:
    """Return the sessions that are moved: victims that are known when judging begins, each with another principal's calls."""
    seconds = events["seconds"]
    cut = seconds.min() + (seconds.max() - seconds.min()) * LEARNED_SHARE
    movable = events[events["kind"].isin(PEOPLE_AND_ROLES)]
    before = movable.loc[movable["seconds"] < cut, "principal"].value_counts()
    after = movable.loc[movable["seconds"] >= cut, "principal"].value_counts()
    victims = sorted(before.index[before >= MIN_KNOWN_EVENTS])
    donors = sorted(after.index[after >= MIN_SESSION_EVENTS])
    draw = random.Random(f"{seed}/masquerade")  # noqa: S311 - draws samples
    draw.shuffle(victims)
    most = max(1, int(VICTIM_SHARE * events["principal"].nunique()))
    moved = []
    for victim in victims[:most]:
        others = [donor for donor in donors if donor != victim]
        if others:
            donor = draw.choice(others)
            rows = events.index[(events["principal"] == donor) & (seconds >= cut)]
            first = draw.randrange(max(1, len(rows) - MAX_SESSION_EVENTS + 1))
            moved.append(MovedSession(victim, donor, rows[first : first + MAX_SESSION_EVENTS].tolist()))
    return moved


def moved_records(
    events: pd.DataFrame, moved: Sequence[MovedSession]
) -> tuple[list[str], list[dict[str, str]]]:
    """Return the records of moved sessions, with ids of their own, and their labels."""
    records, labels = [], []
    for number, session in enumerate(moved):
        caller = json.loads(events.loc[events["principal"] == session.victim, "raw"].iloc[0])
        for place, row in enumerate(session.rows):
            name = f"moved-{number}-{place}"
            records.append(json.dumps(samples.call_as(json.loads(events["raw"].iloc[row]), caller, name)))
            labels.append({"event_id": name, "session": f"moved-{number}", "strength": "masquerade"})
    return records, labels


def without_history(events: pd.DataFrame, attacks: pd.DataFrame) -> pd.Series:
    """Return which events (N,) are left when attacked principals have no history before what is judged."""
    overview = HistoryOverview(attacks)
    times = pd.to_datetime(events["seconds"], unit="s", utc=True).astype("datetime64[us, UTC]")
    overview.update(events.assign(event_time=times))
    at = overview.attacks.to_numpy(np.int64)
    cut = choose_split_time(overview.first, overview.last, at)
    labelled = events["event_id"].isin(attacks["event_id"]) & (events["seconds"] >= cut)
    attacked = events["principal"].isin(events.loc[labelled, "principal"].unique())
    return ~(attacked & (events["seconds"] < cut))


def _evaluate_moved(
    events: pd.DataFrame, moved: Sequence[MovedSession], settings: Settings, progress: Progress
) -> OrganisationResult:
    records, labels = moved_records(events, moved)
    return _evaluate_records([*events["raw"], *records], labels, settings, progress)


def _evaluate_records(
    records: Iterable[str | bytes],
    labels: Sequence[Mapping[str, Any]],
    settings: Settings,
    progress: Progress,
) -> OrganisationResult:
    """Evaluate records and labels as any labelled folder is."""
    with tempfile.TemporaryDirectory(prefix="fingerprint-") as temporary:
        folder = Path(temporary)
        lines = b"\n".join(each if isinstance(each, bytes) else each.encode() for each in records)
        (folder / "records.jsonl.gz").write_bytes(gzip.compress(lines + b"\n", 1))
        (folder / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels))
        return OrganisationEvaluation([str(folder)], settings, progress, OPTIONS).run()
