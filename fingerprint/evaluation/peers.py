"""Simpler methods on the same rows, grouped into the same alerts: what a detector has to beat.

Example:
    >>> for name, method in METHODS.items():
    ...     score, flagged = trial(method, past, now)           # (len(now),) each
    >>> slow = SLOW_METHODS["dfencoder"](progress)              # minutes; says how far it is
    >>> score, flagged = trial(slow, past, now)

A method is a function of the past and of what is judged now: it learns from the one and scores every event of
the other, high is strange, -inf is never shown. Its threshold comes from the past alone: the last quarter of
it is scored by what was learned from the rest, and the threshold is the score that shows a given number of
alerts a day there. A method with a `published_threshold` of its events' scores keeps that
instead; only its alerts are ranked as the others' are.

What needs a package that is not installed is in neither list: LEFT_OUT says why, in a sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from fingerprint.core.extras import how_to_install
from fingerprint.evaluation import outlier_peers, rarity_peer, rule_peer
from fingerprint.evaluation.dfencoder_peer import DfencoderPeer
from fingerprint.evaluation.event_table import EventTable
from fingerprint.evaluation.ranking import (
    PeerMethod,
    Scores,
    best_per_group,
    rank_by_strongest_actions,
    ranked_by_strongest,
    split_holdout,
)
from fingerprint.training.pipeline import Progress

ALERTS_PER_DAY = 20.0  # the budget that sets thresholds


def evaluate_peer(
    method: PeerMethod, past: EventTable, now: EventTable, budget: float = ALERTS_PER_DAY
) -> tuple[Scores, NDArray[np.bool_]]:
    """Scores of `now`, and which of its events reach the method's threshold: (len(now),) each."""
    score = method(past, now)
    published: float | None = getattr(method, "published_threshold", None)
    if published is not None:
        return rank_by_strongest_actions(score, now), score >= published
    return score, np.isfinite(score) & (score >= budget_threshold(method, past, budget))


def budget_threshold(method: PeerMethod, past: EventTable, budget: float) -> float:
    """The score that `budget` alerts a day reach in the held-out end of the past, the least if fewer do."""
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
    "log-rarity": ranked_by_strongest(rarity_peer.log_rarity),
    "log-rarity that learns": ranked_by_strongest(rarity_peer.log_rarity_online),
    "log-rarity in order": ranked_by_strongest(rarity_peer.log_rarity_sequential),
    "IsolationForest": ranked_by_strongest(outlier_peers.isolation_forest),
    "ECOD": ranked_by_strongest(outlier_peers.ecod),
    "first-seen action": rule_peer.first_seen_action,
    "hourly volume z": rule_peer.volume_z,
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
