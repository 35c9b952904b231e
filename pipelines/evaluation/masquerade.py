"""Masquerade on real logs: calls of one principal with the identity of another, which must be found. It needs no simulator.

Example:
    >>> figures = evaluate_masquerade(Path("data/real/prod_slice_anonymised"), Settings(), no_progress)
    >>> figures["methods"]["log-rarity"]["recall_per_100"]      # at 1, 5 and 20 alerts a day per 100 principals
    {'1': 0.22, '5': 0.56, '20': 0.83}

A masquerade is the real work of one person under the name of another (Schonlau et al. 2001). A moved session keeps its calls,
times, tool and addresses; identity and account become the victim's. The donor also keeps its own session. The real sets of the
project are minutes long, so a victim has a history of minutes: the figures compare methods on real records, and do not say what a
history of weeks would find. A span of less than a day counts as a day, because a principal has one alert in it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from fingerprint.core.settings import Settings
from fingerprint.evaluation.metrics import Figures
from fingerprint.sources.cloudtrail import samples
from pipelines.cli.console import Progress
from pipelines.evaluation.evaluate import OrganisationResult
from pipelines.evaluation.real_sets import evaluate_records, pool_methods, read_events

LEARNED_SHARE = 3 / 5  # of the span
MIN_KNOWN_EVENTS = 5  # of a victim, in the learned part: with fewer it has no habits to depart from
MIN_SESSION_EVENTS, MAX_SESSION_EVENTS = 3, 20  # of a donor, in the judged part
VICTIM_SHARE = 0.1  # of the principals, at most: if all were victims, every alert would be right
DRAWS = 3  # of victims and donors
# A service's identity cannot be stolen
PEOPLE_AND_ROLES = ("person", "user", "root", "role", "federated", "account")


class MovedSession(NamedTuple):
    """A session of `donor` that gets the identity of `victim`; `rows` are those in the set's table of events."""

    victim: str
    donor: str
    rows: list[int]


def evaluate_masquerade(
    folder: Path, settings: Settings, progress: Progress, draws: int = DRAWS
) -> Figures | None:
    """Return how many sessions that are moved in one real set every method finds; None if no session can be moved."""
    events = read_events(folder, settings)
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
        "methods": pool_methods(results),
    }


# --- records --------------------------------------------------------------------------------------------------------


def draw_sessions(events: pd.DataFrame, seed: int) -> list[MovedSession]:
    """Return the sessions to move: for each victim, who has a history when judging begins, the calls of another principal."""
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
    """Return the records of moved sessions, with new ids, and their labels."""
    records, labels = [], []
    for number, session in enumerate(moved):
        caller = json.loads(events.loc[events["principal"] == session.victim, "raw"].iloc[0])
        for place, row in enumerate(session.rows):
            name = f"moved-{number}-{place}"
            records.append(json.dumps(samples.call_as(json.loads(events["raw"].iloc[row]), caller, name)))
            labels.append({"event_id": name, "session": f"moved-{number}", "strength": "masquerade"})
    return records, labels


def _evaluate_moved(
    events: pd.DataFrame, moved: Sequence[MovedSession], settings: Settings, progress: Progress
) -> OrganisationResult:
    records, labels = moved_records(events, moved)
    return evaluate_records([*events["raw"], *records], labels, settings, progress)
