"""How a peer's scores of events become a queue of alerts: by the best event, or by all that is strange in an alert.

Example:
    >>> ranked = by_strongest(rarity.log_rarity_lately)
    >>> score = ranked(past, now)                               # (len(now),); one number an alert, -inf for the usual

`metrics.within` ranks an alert by its best event. That is the plain way, and it wastes what some peers know: a session
of twenty rare calls is stranger than one rare call. Our own alerts are ranked by an urgency that is known when they are
complete, so a peer may do the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.evaluation.alert_counting import ACTION_COLUMN
from fingerprint.evaluation.event_table import EventTable

Scores = NDArray[np.float64]
PeerMethod = Callable[[EventTable, EventTable], Scores]

HOLDOUT_SHARE = 0.25  # share of the past on which thresholds are set
USUAL_QUANTILE = 0.95  # share of the judged events that no alert shows
DISCOUNT = 0.5  # what each further action of an alert counts, beside the stranger one before it


def split_holdout(past: EventTable) -> tuple[EventTable, EventTable]:
    """The past in two: what is learned from, and the last quarter of its span, to set a threshold on."""
    return past.split(int(past.seconds[0] + (past.seconds[-1] - past.seconds[0]) * (1 - HOLDOUT_SHARE)))


def best_per_group(score: Scores, group: Hashes) -> Scores:
    """The best score of each distinct group, in the order of the groups."""
    order = np.lexsort((score, group))
    return score[order][_run_ends(group[order])]


def ranked_by_strongest(method: PeerMethod) -> PeerMethod:
    """The method, with its alerts ranked by `strongest`."""
    return lambda past, now: rank_by_strongest_actions(method(past, now), now)


def rank_by_strongest_actions(score: Scores, rows: EventTable) -> Scores:
    """Alerts ranked by their distinct actions' scores, each worth half of the stronger one before it: (N,) -> (N,).

        rank = sum over k of (s_k - usual) / 2^k;  s_0 >= s_1 >= ...: the best score of each of the alert's actions

    `usual` is what 95 % of the events score at most; events below it are -inf, all others have their alert's rank.
    """
    usual = float(np.quantile(score, USUAL_QUANTILE)) if len(score) else 0.0
    strange = np.flatnonzero(score >= usual)
    out = np.full(len(score), -np.inf)
    out[strange] = discounted_sums(
        score[strange] - usual, rows.group[strange], rows.codes[strange, ACTION_COLUMN]
    )
    return out


def discounted_sums(excess: Scores, group: Hashes, value: Hashes) -> Scores:
    """Of each row's group, the sum over its distinct values of their best excess, the k-th times 1/2^k: (N,)."""
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
    """Where a run of equal keys ends."""
    return np.r_[ordered[1:] != ordered[:-1], True] if len(ordered) else np.empty(0, bool)
