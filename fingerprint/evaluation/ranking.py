"""Counts of what was seen before, and the queue of alerts that a peer's scores of events make.

Example:
    >>> keys = np.array([7, 7, 9], np.uint64)
    >>> count_occurrences(keys, np.array([7, 8], np.uint64)).tolist()
    [2, 0]
    >>> ranked = ranked_by_strongest(peers.log_rarity_online)
    >>> score = ranked(past, now)                       # (len(now),); one number an alert, -inf for the usual

Peers that count are made of the first part: codes and hashes of pairs are counted, no loop runs over events.

`metrics.rank_alerts` ranks an alert by its best event. That is the plain way, and it wastes what some peers know: a
session of twenty rare calls is stranger than one rare call. Our own alerts are ranked by an urgency that is known when they
are complete, so a peer may do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Doubles
from fingerprint.compute.hashing import Hashes
from fingerprint.evaluation.event_table import HOUR_SECONDS, EventTable, Seconds
from fingerprint.features.encoding import ACTION_COLUMN, FEATURES

Counts = NDArray[np.int64]

BACKOFF_WEIGHT = 5.0  # events that what stands behind a frequency is worth
RECORDED_COLUMNS = [place for place, feature in enumerate(FEATURES) if not feature.is_stateful]
NO_ACTION = np.uint64(0)  # the action before the first


def count_occurrences(past: Hashes, now: Hashes) -> Counts:
    """Return how often each key of `now` is in `past`: (N,)."""
    code, distinct = pd.factorize(np.concatenate([past, now]))
    times = np.bincount(code[: len(past)], minlength=len(distinct))
    return times[code[len(past) :]].astype(np.int64)


def count_in_earlier_hours(keys: Hashes, hour: Seconds) -> Counts:
    """Return how often each key is in these rows themselves, in hours before the row's own: (N,). Hours never fall.

    That is how often it came before, less how often it came before in the same hour.
    """
    here = hashing.hash_pair(keys, hour.astype(np.uint64))
    return _count_in_rows_above(keys) - _count_in_rows_above(here)


def _count_in_rows_above(keys: Hashes) -> Counts:
    """Return how often each row's key is in the rows above it: (N,)."""
    code = pd.Series(pd.factorize(keys)[0])
    return code.groupby(code, sort=False).cumcount().to_numpy().astype(np.int64)


def count_seen(past: Hashes, now: Hashes, hour: Seconds | None) -> Counts:
    """Return `count_occurrences`; given the hours of `now`, also count what came since, up to the hour before the event's own."""
    return count_occurrences(past, now) + (0 if hour is None else count_in_earlier_hours(now, hour))


def log_frequencies(
    past: EventTable, now: EventTable, columns: Sequence[int], online: bool = False
) -> Doubles:
    """Return log frequencies of features' values at the principal, backed off: (len(now), len(columns)).

    With P the frequency in the organisation, where one value more is possible than was seen:

        p(x) = (count(principal, x) + 5 P(x)) / (count(principal) + 5)
        P(x) = (count(x) + 1/2) / (count() + (values + 1) / 2)

    `online` also counts what happened since the past, up to the hour before the event's own.
    """
    hour = now.hours if online else None
    out = np.empty((len(now), len(columns)))
    of_principal = count_seen(past.principal, now.principal, hour)
    everything = count_seen(np.zeros(len(past), np.uint64), np.zeros(len(now), np.uint64), hour)
    for column, place in enumerate(columns):
        before, here = past.codes[:, place], now.codes[:, place]
        own = count_seen(
            hashing.hash_pair(past.principal, before), hashing.hash_pair(now.principal, here), hour
        )
        values = len(pd.unique(before))
        organisation = (count_seen(before, here, hour) + 0.5) / (everything + (values + 1) / 2)
        out[:, column] = np.log((own + BACKOFF_WEIGHT * organisation) / (of_principal + BACKOFF_WEIGHT))
    return out


def transition_log_frequency(past: EventTable, now: EventTable, fallback: Doubles) -> Doubles:
    """Return the log frequency of each action after the principal's previous one: (N,).

        p(action | previous) = (count(principal, previous, action) + 5 p(action)) / (count(principal, previous) + 5)

    `fallback` (N,) is log p(action) at the principal. What was done up to the hour before counts as seen.
    """
    then, now_after = (hashing.hash_pair(rows.principal, previous_action(rows)) for rows in (past, now))
    context = count_seen(then, now_after, now.hours)
    pairs = count_seen(
        hashing.hash_pair(then, past.codes[:, ACTION_COLUMN]),
        hashing.hash_pair(now_after, now.codes[:, ACTION_COLUMN]),
        now.hours,
    )
    return np.log((pairs + BACKOFF_WEIGHT * np.exp(fallback)) / (context + BACKOFF_WEIGHT))


def previous_action(rows: EventTable) -> Hashes:
    """Return the code of the principal's action before, within the hour; NO_ACTION after a longer pause: (N,)."""
    order = np.lexsort((rows.seconds, rows.principal))
    who, when, action = rows.principal[order], rows.seconds[order], rows.codes[order, ACTION_COLUMN]
    out = np.full(len(rows), NO_ACTION)
    goes_on = (who[1:] == who[:-1]) & (when[1:] - when[:-1] < HOUR_SECONDS)
    out[order[1:]] = np.where(goes_on, action[:-1], NO_ACTION)
    return out


Scores = NDArray[np.float64]
PeerMethod = Callable[[EventTable, EventTable], Scores]

HOLDOUT_SHARE = 0.25  # share of the past on which thresholds are set
USUAL_QUANTILE = 0.95  # share of the judged events that no alert with a stranger one shows
DISCOUNT = 0.5  # what each further action of an alert counts, beside the stranger one before it


def split_holdout(past: EventTable) -> tuple[EventTable, EventTable]:
    """Return the past in two: what is learned from, and the last quarter of its span, to set a threshold on."""
    return past.split(int(past.seconds[0] + (past.seconds[-1] - past.seconds[0]) * (1 - HOLDOUT_SHARE)))


def best_per_group(score: Scores, group: Hashes) -> Scores:
    """Return the best score of each distinct group, in the order of the groups."""
    order = np.lexsort((score, group))
    return score[order][_run_ends(group[order])]


def ranked_by_strongest(method: PeerMethod) -> PeerMethod:
    """Return the method with its alerts ranked by `rank_by_strongest_actions`."""
    return lambda past, now: rank_by_strongest_actions(method(past, now), now)


def rank_by_strongest_actions(score: Scores, rows: EventTable) -> Scores:
    """Rank alerts by their distinct actions' scores, each worth half of the stronger one before it: (N,) -> (N,).

        rank = sum over k of (s_k - usual) / 2^k;  s_0 >= s_1 >= ...: the best score of each of the alert's actions

    `usual` is what 95 % of the events score at most. An alert is shown with its events of that score or more, which all have
    its rank. One without such events ranks below all others, by its best event, so that no queue ends before its budget.
    """
    usual = float(np.quantile(score, USUAL_QUANTILE)) if len(score) else 0.0
    strange = score >= usual
    out = np.where(np.isin(rows.group, rows.group[strange]), -np.inf, score - usual)
    out[strange] = discounted_sums(
        score[strange] - usual, rows.group[strange], rows.codes[strange, ACTION_COLUMN]
    )
    return out


def discounted_sums(excess: Scores, group: Hashes, value: Hashes) -> Scores:
    """Return for each row its group's sum over distinct values of their best excess, the k-th times 1/2^k: (N,)."""
    pair = hashing.hash_pair(group, value)
    order = np.lexsort((excess, pair))
    best = order[_run_ends(pair[order])]  # one row a group and value
    best = best[np.lexsort((-excess[best], group[best]))]
    first = np.r_[True, group[best][1:] != group[best][:-1]][: len(best)]
    place = np.arange(len(best))
    rank = place - np.maximum.accumulate(np.where(first, place, 0))
    groups, inverse = np.unique(group[best], return_inverse=True)
    sums = np.bincount(inverse, excess[best] * DISCOUNT**rank, len(groups)).astype(np.float64)
    return sums[np.searchsorted(groups, group)]


def _run_ends(ordered: Hashes) -> NDArray[np.bool_]:
    """Return where a run of equal keys ends."""
    return np.r_[ordered[1:] != ordered[:-1], True] if len(ordered) else np.empty(0, bool)
