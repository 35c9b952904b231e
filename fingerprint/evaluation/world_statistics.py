"""Statistics of a world: how often people do something new, how uneven their hours are, how much an attack resembles its victim.

Example:
    >>> activity = pd.concat([activity_of(events, labels) for events in history.batches()], ignore_index=True)
    >>> figures = measure_world(activity, cut)          # cut: seconds from the epoch, where what is judged begins
    >>> figures["person_hours_with_new_action"], figures["attack_calls_no_one_else_makes"]["smash"]
    (0.26, 0.01)

Detectors are judged in several worlds (`fingerprint evaluate --worlds`); these figures say in what the worlds differ, and whether
one of them is like one's own. Novelty is counted on harmless events of the judged days. An hour or a transition is new if the
principal had nothing like it before these days; an action is counted once, at its first event. A share of nothing is None.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import Mask
from fingerprint.compute.hashing import Hashes
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.evaluation.event_table import HOUR_SECONDS
from fingerprint.evaluation.labels import find_label_rows, names_at
from fingerprint.evaluation.metrics import Figures
from fingerprint.features.value_texts import network_range, program_and_version

PEOPLE_KINDS = ("person", "user", "root")  # kinds of principals that are people; pods are federated, too
MACHINE_KIND = "role"
SERVICE_PATH = "service"  # call path of what AWS services do, by themselves or for a caller
MANY_NEW_ACTIONS = 5  # new actions of one hour that come as a bunch
IN_BULK = 100  # calls of one action in a session, of one that the victim makes anyway: an insider's
HOURS_OLD = 24 * HOUR_SECONDS  # age of a principal that is hours old
USUAL_HOUR_SHARE = 0.02  # share of a principal's events that makes an hour of the day one of its usual hours
THIEVES = ("smash", "session", "quiet")  # strengths whose attackers have tools and networks of their own
DAY_HOURS = 24


def activity_of(events: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Return what the statistics read of a chunk of events with entities, one row an event.

    `event`, `principal`, `action`, `network` (/16, IPv6 /32, or the name of a service) and `program` (with its version) are
    hashes; `kind` is the principal's, `by_service` says that a service made the call; `session` and `strength` are those of
    `labels` (`labels.attack_labels`), missing for harmless events.
    """
    event = hashing.hash_strings(events["event_id"])
    place = find_label_rows(event, labels)
    action = hashing.hash_pair(
        hashing.hash_strings(events["service"]), hashing.hash_strings(events["action"])
    )
    columns = {
        "event": event,
        "principal": hashing.hash_strings(events["principal"]),
        "kind": pd.Categorical(events["kind"].astype(object)),
        "by_service": (events["call_path"] == SERVICE_PATH).to_numpy(bool),
        "seconds": frames.epoch_seconds(events["event_time"]),
        "action": action,
        "network": _hash_texts(events["source_address"], lambda text: network_range(text, (16, 32))),
        "program": _hash_texts(events["user_agent"], lambda text: program_and_version(text)[1]),
        "session": names_at(labels["session"], place),
        "strength": names_at(labels["strength"], place),
    }
    return pd.DataFrame(columns)


def _hash_texts(column: pd.Series, text_of: Any) -> Hashes:
    """Return the hash of a text that each value stands for; each distinct value is looked at once."""
    codes, distinct = pd.factorize(column.astype(object))
    texts = pd.Series([text_of(str(value)) for value in distinct] + [""], dtype=object)
    hashes: Hashes = hashing.hash_strings(texts)[codes]
    return hashes


def measure_world(activity: pd.DataFrame, cut: int) -> Figures:
    """Return the statistics of a history's events (rows of `activity_of`), of which those from `cut` (seconds) on are judged."""
    rows = activity.drop_duplicates(["event", "principal"]).sort_values("seconds", kind="stable")
    rows = rows.reset_index(drop=True)
    attack = rows["session"].notna().to_numpy()
    harmless, attacks = rows[~attack].reset_index(drop=True), rows[attack]
    return {
        **_novelty_figures(harmless, cut),
        **_volume_figures(harmless, cut),
        **_principal_figures(harmless),
        **_attack_figures(harmless, attacks),
    }


# --- what people and machines do ----------------------------------------------------------------------------


def _novelty_figures(harmless: pd.DataFrame, cut: int) -> Figures:
    people = harmless[_is_person(harmless)].reset_index(drop=True)
    judged, hour = people["seconds"].to_numpy() >= cut, _person_hours(people)
    first = ~_pairs(people, "action").duplicated().to_numpy() & judged
    new_per_hour = pd.Series(hour[first]).value_counts().to_numpy()
    hours = len(np.unique(hour[judged]))
    return {
        "person_hours_with_new_action": _share(len(np.unique(hour[_is_new(people, "action", cut)])), hours),
        "new_actions_in_an_hour": _round(new_per_hour.mean()) if len(new_per_hour) else None,
        "new_actions_in_an_hour_p99": _round(np.quantile(new_per_hour, 0.99)) if len(new_per_hour) else None,
        "bunched_novelties": _share(new_per_hour[new_per_hour >= MANY_NEW_ACTIONS].sum(), new_per_hour.sum()),
        "first_calls": _share(first.sum(), judged.sum()),
        "new_transitions": _new_transitions(harmless, cut),
        "person_hours_from_new_network": _share(len(np.unique(hour[_is_new(people, "network", cut)])), hours),
    }


def _new_transitions(harmless: pd.DataFrame, cut: int) -> float | None:
    """Return the share of judged events whose action after the principal's action before is new, of all principals."""
    before: Hashes = harmless.groupby("principal")["action"].shift().fillna(0).to_numpy(np.uint64)
    pairs = harmless.assign(transition=hashing.hash_pair(before, harmless["action"].to_numpy()))
    return _share(_is_new(pairs, "transition", cut).sum(), (harmless["seconds"] >= cut).sum())


def _volume_figures(harmless: pd.DataFrame, cut: int) -> Figures:
    """Return variance over mean of the events in an active hour, of people's hours together and of machine roles'."""
    judged = harmless[harmless["seconds"].to_numpy() >= cut]
    people, machines = _is_person(judged), (judged["kind"] == MACHINE_KIND).to_numpy()
    return {
        "person_hour_dispersion": _dispersion(judged[people]),
        "machine_hour_dispersion": _dispersion(judged[machines]),
    }


def _principal_figures(harmless: pd.DataFrame) -> Figures:
    """Return how many of the principals are of which kind, and how long the history is."""
    by_service = harmless.groupby("principal", sort=False)["by_service"].all().to_numpy()
    kinds = harmless.drop_duplicates("principal")["kind"].astype(str).where(~by_service, SERVICE_PATH)
    people, seconds = kinds.isin(PEOPLE_KINDS), harmless["seconds"]
    return {
        "people_share": _share(people.sum(), len(kinds)),
        "machines_share": _share((kinds == MACHINE_KIND).sum(), len(kinds)),
        "services_share": _share((kinds == SERVICE_PATH).sum(), len(kinds)),
        "single_sign_on_share": _share((kinds == "person").sum(), people.sum()),
        "history_days": _round((seconds.max() - seconds.min()) / DAY_SECONDS) if len(seconds) else None,
    }


# --- attacks ------------------------------------------------------------------------------------------------


def _attack_figures(harmless: pd.DataFrame, attacks: pd.DataFrame) -> Figures:
    called = attacks.assign(
        unshared=~attacks["action"].isin(harmless["action"]),
        new_action=~_pairs(attacks, "action").isin(_pairs(harmless, "action")),
        own_program=_pairs(attacks, "program").isin(_pairs(harmless, "program")),
        own_network=_pairs(attacks, "network").isin(_pairs(harmless, "network")),
        own_hour=_hours_of_day(attacks).isin(_usual_hours(harmless)),
        hours_old=attacks["principal"].map(_first_seconds(harmless, attacks))
        > attacks["seconds"] - HOURS_OLD,
    )
    strengths = called.groupby("strength", observed=True)
    thieves, quiet, mimics, insiders = (
        called[called["strength"].isin(some)] for some in (THIEVES, ("quiet",), ("mimic",), ("insider",))
    )
    return {
        "attack_calls_no_one_else_makes": {
            str(name): _round(part["unshared"].mean()) for name, part in strengths
        },
        "attack_sessions": {str(name): int(part["session"].nunique()) for name, part in strengths},
        "thieves_with_the_victims_tool": _sessions_with(thieves, "own_program"),
        "quiet_thieves_with_the_victims_tool": _sessions_with(quiet, "own_program"),
        "thieves_from_the_victims_network": _sessions_with(thieves, "own_network"),
        "loud_attacks_in_usual_hours": _sessions_with(
            called[called["strength"].isin(("smash", "session"))], "own_hour"
        ),
        "mimics_without_new_action": _sessions_with(mimics.assign(known=~mimics["new_action"]), "known"),
        **_repetition_figures(mimics),
        "attacks_in_bulk": _bulk_share(called),
        "insider_busy_days": _busy_days(insiders, harmless),
        "victims_hours_old": _sessions_with(called, "hours_old"),
    }


def _sessions_with(calls: pd.DataFrame, trait: str) -> float | None:
    """Return the share of attack sessions all of whose calls have a trait."""
    of_session = calls.groupby("session", observed=True)[trait].all()
    return _share(of_session.sum(), len(of_session))


def _repetition_figures(mimics: pd.DataFrame) -> Figures:
    """Return the medians of how many actions a mimic calls, and of how often it calls the commonest of them."""
    calls = mimics.groupby(["session", "action"], observed=True).size().groupby("session", observed=True)
    return {
        "mimic_distinct_actions": _median(calls.size()),
        "mimic_calls_of_the_commonest": _median(calls.max()),
    }


def _busy_days(insiders: pd.DataFrame, harmless: pd.DataFrame) -> float | None:
    """Return the median of how many busy days' worth an insider takes in its session.

    These are its calls of its commonest action over the most that its victim made of it on one harmless day, at least one.
    """
    named = ["principal", "action"]
    taken = insiders.groupby(["session", *named], observed=True).size().sort_values()
    commonest = taken.groupby("session", observed=True).tail(1).droplevel("session")
    own = harmless[harmless["principal"].isin(insiders["principal"])]
    day = (own["seconds"] // DAY_SECONDS).rename("day")
    busiest = own.groupby([*named, day], observed=True).size().groupby(level=named).max()
    return _median(commonest / busiest.reindex(commonest.index).fillna(1))


def _bulk_share(calls: pd.DataFrame) -> float | None:
    """Return the share of attack sessions that make IN_BULK calls of one action that the victim makes anyway."""
    usual = calls[~calls["new_action"]]
    often = usual.groupby(["session", "action"], observed=True).size()
    bulk = often[often >= IN_BULK].reset_index()["session"].nunique()
    return _share(bulk, calls["session"].nunique())


def _first_seconds(harmless: pd.DataFrame, attacks: pd.DataFrame) -> pd.Series:
    """Return when each victim was first seen: at the attack, if it did nothing else."""
    of_victims = harmless[harmless["principal"].isin(attacks["principal"])]
    return pd.concat([of_victims, attacks]).groupby("principal")["seconds"].min()


def _usual_hours(harmless: pd.DataFrame) -> NDArray[Any]:
    """Return the usual hours of each principal, as pairs (`_hours_of_day`)."""
    pairs = _hours_of_day(harmless)
    count, total = pairs.value_counts(), harmless.groupby("principal")["seconds"].transform("size")
    usual: NDArray[Any] = pairs[pairs.map(count) >= USUAL_HOUR_SHARE * total].unique()
    return usual


def _hours_of_day(rows: pd.DataFrame) -> pd.Series:
    """Return principal and hour of the day as one key: (N,)."""
    hour = rows["seconds"].to_numpy() // HOUR_SECONDS % DAY_HOURS
    return pd.Series(hashing.hash_pair(rows["principal"].to_numpy(), hour.astype(np.uint64)), rows.index)


# --- parts --------------------------------------------------------------------------------------------------


def _is_person(rows: pd.DataFrame) -> Mask:
    return rows["kind"].isin(PEOPLE_KINDS).to_numpy()


def _pairs(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return principal and a column as one key: (N,)."""
    return pd.Series(hashing.hash_pair(rows["principal"].to_numpy(), rows[column].to_numpy()), rows.index)


def _is_new(rows: pd.DataFrame, column: str, cut: int) -> Mask:
    """Return the judged rows of a value that their principal did not have before `cut`."""
    pairs, judged = _pairs(rows, column).to_numpy(), rows["seconds"].to_numpy() >= cut
    new: Mask = judged & ~np.isin(pairs, pairs[~judged])
    return new


def _person_hours(rows: pd.DataFrame) -> Hashes:
    hour = (rows["seconds"].to_numpy() // HOUR_SECONDS).astype(np.uint64)
    return hashing.hash_pair(rows["principal"].to_numpy(), hour)


def _dispersion(rows: pd.DataFrame) -> float | None:
    per_hour = np.unique(_person_hours(rows), return_counts=True)[1]
    return _round(per_hour.var() / per_hour.mean()) if len(per_hour) else None


def _share(part: float, whole: float) -> float | None:
    return _round(part / whole) if whole else None


def _median(values: pd.Series) -> float | None:
    return _round(values.median()) if len(values) else None


def _round(value: float) -> float:
    return round(float(value), 4)
