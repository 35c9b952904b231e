"""Peers: simpler methods on the same rows, grouped into the same alerts. A detector has to beat them.

Example:
    >>> for name, method in PEER_METHODS.items():
    ...     score, flagged = evaluate_peer(method, past, now)   # (len(now),) each
    >>> slow = SLOW_PEER_METHODS["dfencoder"](progress)         # minutes; says how far it is
    >>> score, flagged = evaluate_peer(slow, past, now)

A method is a function of the past and of the events to be scored now: it learns from the one and scores every event of
the other, high is strange, -inf is never shown. Its threshold comes from the past alone: the last quarter of
it is scored by what was learned from the rest, and the threshold is the score that shows a given number of
alerts a day there. A method with a `published_threshold` of its events' scores keeps that
instead; only its alerts are ranked as the others' are.

What needs a package that is not installed is in neither table: UNAVAILABLE_PEERS says why, in a sentence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Doubles, is_first_occurrence
from fingerprint.core.extras import how_to_install
from fingerprint.evaluation.dfencoder_peer import DfencoderPeer
from fingerprint.evaluation.event_table import HOUR_SECONDS, EventTable
from fingerprint.evaluation.ranking import (
    RECORDED_COLUMNS,
    PeerMethod,
    Scores,
    best_per_group,
    count_occurrences,
    log_frequencies,
    rank_by_strongest_actions,
    ranked_by_strongest,
    split_holdout,
    transition_log_frequency,
)
from fingerprint.features.encoding import ACTION_COLUMN, FEATURE_NAMES
from fingerprint.training.pipeline import Progress

RARITY_COLUMNS = [FEATURE_NAMES.index(name) for name in ("action", "program", "network", "error")]


def log_rarity(past: EventTable, now: EventTable) -> Scores:
    """Return minus the sum of the log frequencies of action, program, network and error: (len(now),) nats, high is rare."""
    rarity: Scores = -log_frequencies(past, now, RARITY_COLUMNS).sum(1)
    return rarity


def log_rarity_online(past: EventTable, now: EventTable) -> Scores:
    """Return `log_rarity` where what was done up to the hour before counts as seen."""
    rarity: Scores = -log_frequencies(past, now, RARITY_COLUMNS, online=True).sum(1)
    return rarity


def log_rarity_sequential(past: EventTable, now: EventTable) -> Scores:
    """Return `log_rarity_online` plus the rarity of the action after the principal's previous one within the hour."""
    known = log_frequencies(past, now, RARITY_COLUMNS, online=True)
    rarity: Scores = -known.sum(1) - transition_log_frequency(past, now, known[:, 0])
    return rarity


TREES, MAX_SAMPLE, SEED = 100, 50_000, 0
USUAL = np.log(1 / 50)  # what happens once in fifty is no outlier, however common it is


def isolation_forest(past: EventTable, now: EventTable) -> Scores:
    """Score by IsolationForest (Liu, Ting, Zhou 2008; scikit-learn) over all recorded features' log frequencies.

    Counts learn (what was done up to the hour before counts as seen): it helps both forest and ECOD. They are fitted on the
    held-out end of the past as measured by the rest of it, so that they have met novelties, and on a sample of that.
    """
    forest = IsolationForest(n_estimators=TREES, random_state=SEED).fit(_training_table(past))
    table = _test_table(past, now)
    first, inverse = _unique_rows(table)
    strange: Scores = -forest.score_samples(table[first])
    return strange[inverse]


def ecod(past: EventTable, now: EventTable) -> Scores:
    """Score by ECOD (Li et al. 2022; PyOD) over the same table: the sum of the features' log tail probabilities.

    Its tails are two: by itself it also calls strange what is unusually common, so frequencies are cut at one in fifty.
    PyOD measures the tails on the fitted rows and the scored ones together.
    """
    from pyod.models.ecod import ECOD

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a feature that is usual everywhere has no skewness
        fitted = ECOD().fit(np.minimum(_training_table(past), USUAL))
        strange: Scores = fitted.decision_function(np.minimum(_test_table(past, now), USUAL))
    return strange


def _training_table(past: EventTable) -> Doubles:
    """Return at most MAX_SAMPLE rows of the held-out end of the past, as the rest of it knows them."""
    older, newer = split_holdout(past)
    some = np.random.default_rng(SEED).permutation(len(newer))[:MAX_SAMPLE]
    return log_frequencies(older, newer, RECORDED_COLUMNS, online=True)[some]


def _test_table(past: EventTable, now: EventTable) -> Doubles:
    return log_frequencies(past, now, RECORDED_COLUMNS, online=True)


def _unique_rows(table: Doubles) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first of each kind of row (D,), and each row's kind (N,): equal rows, to the bit, are scored once."""
    key = np.zeros(len(table), np.uint64)
    for column in np.ascontiguousarray(table.T).view(np.uint64):
        key = hashing.hash_pair(key, column)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse


def first_seen_action(past: EventTable, now: EventTable) -> Scores:
    """Score by the rule "an action new to the principal, once". Alerts rank by how many of them they hold."""
    keys = hashing.hash_pair(now.principal, now.codes[:, ACTION_COLUMN])
    known = count_occurrences(hashing.hash_pair(past.principal, past.codes[:, ACTION_COLUMN]), keys) > 0
    new = is_first_occurrence(keys) & ~known
    return np.where(new, count_occurrences(now.group[new], now.group), -np.inf)


def volume_z(past: EventTable, now: EventTable) -> Scores:
    """Return z of the principal's events in the event's hour against all its hours in the past, idle ones included.

    The spread is at least that of a Poisson count, and at least one event. A principal that was never seen has mean zero.
    """
    hours = past.seconds[-1] // HOUR_SECONDS - past.seconds[0] // HOUR_SECONDS + 1
    _, first, events = np.unique(
        hashing.hash_pair(past.principal, past.hours.astype(np.uint64)), return_index=True, return_counts=True
    )
    who, inverse = np.unique(past.principal[first], return_inverse=True)
    mean = np.bincount(inverse, events, len(who)) / hours
    variance = np.bincount(inverse, events.astype(float) ** 2, len(who)) / hours - mean**2
    place = np.minimum(np.searchsorted(who, now.principal), len(who) - 1)
    known = who[place] == now.principal
    usual, spread = np.where(known, mean[place], 0), np.where(known, variance[place], 0)
    here = hashing.hash_pair(now.principal, now.hours.astype(np.uint64))
    volume: Scores = (count_occurrences(here, here) - usual) / np.sqrt(
        np.maximum(np.maximum(spread, usual), 1)
    )
    return volume


ALERTS_PER_DAY = 20.0  # the budget that sets thresholds


def evaluate_peer(
    method: PeerMethod, past: EventTable, now: EventTable, budget: float = ALERTS_PER_DAY
) -> tuple[Scores, NDArray[np.bool_]]:
    """Return scores of `now`, and which of its events reach the method's threshold: (len(now),) each."""
    score = method(past, now)
    published: float | None = getattr(method, "published_threshold", None)
    if published is not None:
        return rank_by_strongest_actions(score, now), score >= published
    return score, np.isfinite(score) & (score >= budget_threshold(method, past, budget))


def budget_threshold(method: PeerMethod, past: EventTable, budget: float) -> float:
    """Return the score that `budget` alerts a day reach in the held-out end of the past, the least if fewer do."""
    older, newer = split_holdout(past)
    if not len(older) or not len(newer):
        return np.inf
    score = method(older, newer)
    best = np.sort(best_per_group(score[np.isfinite(score)], newer.group[np.isfinite(score)]))[::-1]
    if not len(best):
        return -np.inf
    return float(best[min(max(int(budget * newer.span_days), 1), len(best)) - 1])


# --- which there are ----------------------------------------------------------------------------------------

# Each ranks its alerts in the way that served it better on seeds 0, 1 and 2 (docs/explanation/experiments.md).
PEER_METHODS: dict[str, PeerMethod] = {
    "log-rarity": ranked_by_strongest(log_rarity),
    "log-rarity that learns": ranked_by_strongest(log_rarity_online),
    "log-rarity in order": ranked_by_strongest(log_rarity_sequential),
    "IsolationForest": ranked_by_strongest(isolation_forest),
    "ECOD": ranked_by_strongest(ecod),
    "first-seen action": first_seen_action,
    "hourly volume z": volume_z,
}

SLOW_PEER_METHODS: dict[str, Callable[[Progress], PeerMethod]] = {  # seconds a principal, not for all
    "dfencoder": DfencoderPeer,
}

REQUIRED_PACKAGES = {"ECOD": "pyod", "dfencoder": "dfencoder"}

UNAVAILABLE_PEERS = {
    name: f"{name} is left out: it needs {package}, {how_to_install('peers')}"
    for name, package in REQUIRED_PACKAGES.items()
    if find_spec(package) is None
}
for _name in UNAVAILABLE_PEERS:
    PEER_METHODS.pop(_name, None)
    SLOW_PEER_METHODS.pop(_name, None)
