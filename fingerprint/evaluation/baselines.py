"""Simpler methods on the same rows, grouped into the same alerts: what a detector has to beat.

Example:
    >>> for name, method in METHODS.items():
    ...     score, flagged = trial(method, past, now)           # (len(now),) each

A method is a function of the past and of what is judged now: it learns from the one and scores every event of
the other, high is strange, -inf is never shown. Its threshold comes from the past alone: the last quarter of
it is scored by what was learned from the rest, and the threshold is the score that shows a given number of
alerts a day there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from fingerprint import hashing
from fingerprint.evaluation.rows import HOUR, Rows
from fingerprint.features import FEATURES, NAMES
from fingerprint.hashing import Hashes

Scores = NDArray[np.float64]
Method = Callable[[Rows, Rows], Scores]

ALERTS_PER_DAY = 20.0  # the budget that sets thresholds
HELD_OUT = 0.25  # share of the past on which a threshold is set
BACK_OFF = 5.0  # events that the organisation's frequency is worth at a principal
HABITS = [NAMES.index(name) for name in ("action", "program", "network", "error")]
RECORDED = [place for place, feature in enumerate(FEATURES) if not feature.remembered]
TREES, SAMPLE, SEED = 100, 50_000, 0


def trial(
    method: Method, past: Rows, now: Rows, budget: float = ALERTS_PER_DAY
) -> tuple[Scores, NDArray[np.bool_]]:
    """Scores of `now`, and which of its events reach the threshold set on `past`: (len(now),) each."""
    score = method(past, now)
    return score, np.isfinite(score) & (score >= threshold(method, past, budget))


def threshold(method: Method, past: Rows, budget: float) -> float:
    """The score that `budget` alerts a day reach in the held-out end of the past, the least if fewer do."""
    older, newer = past.split(int(past.seconds[0] + (past.seconds[-1] - past.seconds[0]) * (1 - HELD_OUT)))
    if not len(older) or not len(newer):
        return np.inf
    score = method(older, newer)
    best = np.sort(best_of_groups(score[np.isfinite(score)], newer.group[np.isfinite(score)]))[::-1]
    if not len(best):
        return -np.inf
    return float(best[min(max(int(budget * newer.days), 1), len(best)) - 1])


def best_of_groups(score: Scores, group: Hashes) -> Scores:
    """The best score of each distinct group, in the order of the groups."""
    order = np.lexsort((score, group))
    last = np.r_[group[order][1:] != group[order][:-1], True] if len(order) else np.empty(0, bool)
    return score[order][last]


# --- counts -------------------------------------------------------------------------------------------------


def count(past: Hashes, now: Hashes) -> NDArray[np.int64]:
    """How often each key of `now` is in `past`: (N,)."""
    known = np.sort(past)
    distinct, inverse = np.unique(now, return_inverse=True)
    times = np.searchsorted(known, distinct, side="right") - np.searchsorted(known, distinct)
    return times[inverse].astype(np.int64)


def count_earlier(keys: Hashes, hour: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each key is in these rows themselves, in hours before the row's own: (N,)."""
    order = np.lexsort((hour, keys))
    keys, hour = keys[order], hour[order]
    other_key = np.r_[True, keys[1:] != keys[:-1]]
    other = other_key | np.r_[True, hour[1:] != hour[:-1]]
    place = np.arange(len(keys))
    out = np.empty(len(keys), np.int64)
    out[order] = np.maximum.accumulate(np.where(other, place, 0)) - np.maximum.accumulate(
        np.where(other_key, place, 0)
    )
    return out


def log_frequencies(past: Rows, now: Rows, places: Sequence[int], lately: bool = False) -> Scores:
    """Log frequency of features' values at the principal, backed off: (len(now), len(places)).

    With P the frequency in the organisation, where one value more is possible than was seen:

        p(x) = (count(principal, x) + 5 P(x)) / (count(principal) + 5)
        P(x) = (count(x) + 1/2) / (count() + (values + 1) / 2)

    `lately` also counts what happened since the past, up to the hour before the event's own.
    """

    def counts(before: Hashes, here: Hashes) -> NDArray[np.int64]:
        return count(before, here) + (count_earlier(here, now.hour) if lately else 0)

    out = np.empty((len(now), len(places)))
    mine = counts(past.principal, now.principal)
    everything = counts(np.zeros(len(past), np.uint64), np.zeros(len(now), np.uint64))
    for column, place in enumerate(places):
        before, here = past.codes[:, place], now.codes[:, place]
        own = counts(hashing.mix(past.principal, before), hashing.mix(now.principal, here))
        organisation = (counts(before, here) + 0.5) / (everything + (len(np.unique(before)) + 1) / 2)
        out[:, column] = np.log((own + BACK_OFF * organisation) / (mine + BACK_OFF))
    return out


# --- methods ------------------------------------------------------------------------------------------------


def log_rarity(past: Rows, now: Rows) -> Scores:
    """Minus the sum of the log frequencies of action, program, network and error."""
    rarity: Scores = -log_frequencies(past, now, HABITS).sum(1)
    return rarity


def log_rarity_lately(past: Rows, now: Rows) -> Scores:
    """The same; what was done up to the hour before counts as seen."""
    rarity: Scores = -log_frequencies(past, now, HABITS, lately=True).sum(1)
    return rarity


def isolation_forest(past: Rows, now: Rows) -> Scores:
    """IsolationForest (Liu, Ting, Zhou 2008; scikit-learn) over all recorded features' log frequencies.

    It is fitted on the later half of the past as measured by the earlier half, so that it has met novelties.
    """
    older, newer = past.split(int(np.median(past.seconds)))
    table = log_frequencies(older, newer, RECORDED)
    some = np.random.default_rng(SEED).permutation(len(table))[:SAMPLE]
    forest = IsolationForest(n_estimators=TREES, random_state=SEED).fit(table[some])
    distinct, inverse = np.unique(log_frequencies(past, now, RECORDED), axis=0, return_inverse=True)
    strange: Scores = -forest.score_samples(distinct)
    return strange[inverse]


def first_seen_action(past: Rows, now: Rows) -> Scores:
    """The rule: an action new to the principal, once. Alerts rank by how many of them they hold."""
    action = NAMES.index("action")
    keys = hashing.mix(now.principal, now.codes[:, action])
    known = count(hashing.mix(past.principal, past.codes[:, action]), keys) > 0
    first = np.zeros(len(now), bool)
    first[np.unique(keys, return_index=True)[1]] = True
    new = first & ~known
    return np.where(new, count(now.group[new], now.group), -np.inf)


def volume_z(past: Rows, now: Rows) -> Scores:
    """z of the principal's events in the event's hour against all its hours in the past, idle ones included.

    The spread is at least that of a Poisson count, and at least one event. Who was never seen has mean zero.
    """
    hours = past.seconds[-1] // HOUR - past.seconds[0] // HOUR + 1
    _, first, events = np.unique(
        hashing.mix(past.principal, past.hour.astype(np.uint64)), return_index=True, return_counts=True
    )
    who, inverse = np.unique(past.principal[first], return_inverse=True)
    mean = np.bincount(inverse, events, len(who)) / hours
    variance = np.bincount(inverse, events.astype(float) ** 2, len(who)) / hours - mean**2
    place = np.minimum(np.searchsorted(who, now.principal), len(who) - 1)
    known = who[place] == now.principal
    usual, spread = np.where(known, mean[place], 0), np.where(known, variance[place], 0)
    here = hashing.mix(now.principal, now.hour.astype(np.uint64))
    volume: Scores = (count(here, here) - usual) / np.sqrt(np.maximum(np.maximum(spread, usual), 1))
    return volume


METHODS: dict[str, Method] = {
    "log-rarity": log_rarity,
    "log-rarity that learns": log_rarity_lately,
    "IsolationForest": isolation_forest,
    "first-seen action": first_seen_action,
    "hourly volume z": volume_z,
}
