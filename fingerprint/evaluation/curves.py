"""Precision against recall, from the strictest threshold to none: over events, and over alerts.

Example:
    >>> curve = of_events(attack, score)                # (N,) bool, (N,) float
    >>> curve.average_precision()
    0.72
    >>> curve.points(most=3)
    [[0.1, 1.0], [0.6, 0.8], [0.9, 0.3]]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.analysis.threshold_what_if import LEAST_SHARE

Floats = NDArray[np.float64]

MAX_POINTS = 100


@dataclass(frozen=True)
class PrecisionRecallCurve:
    """K thresholds, highest first: the share of what is there that is found, (K,), and of what is shown that is right."""

    recall: Floats
    precision: Floats

    def average_precision(self) -> float:
        """AP = sum over k of (R_k - R_k-1) P_k, R_0 = 0; 0 for an empty curve."""
        return float(np.sum(np.diff(self.recall, prepend=0.0) * self.precision))

    def points(self, limit: int = MAX_POINTS) -> list[list[float]]:
        """At most so many [recall, precision], evenly among those at which recall grows, the first and last of them kept."""
        grows = np.flatnonzero(np.diff(self.recall, prepend=0.0) > 0)
        some = grows[np.unique(np.linspace(0, len(grows) - 1, min(limit, len(grows))).round().astype(int))]
        return [
            [round(float(self.recall[at]), 4), round(float(self.precision[at]), 4)] for at in some.tolist()
        ]


def event_curve(attack: NDArray[np.bool_], score: Floats) -> PrecisionRecallCurve:
    """Every event by itself. What is never shown (-inf) is on no point, so recall may end below 1."""
    shown = np.flatnonzero(np.isfinite(score))
    order = shown[np.argsort(-score[shown], kind="stable")]
    last = np.append(np.diff(score[order]) != 0, True)[: len(order)]  # of those with one score
    right, said = np.cumsum(attack[order])[last], np.flatnonzero(last) + 1
    return PrecisionRecallCurve(right / max(int(attack.sum()), 1), right / said)


def alert_curve(events: pd.DataFrame, sessions: int) -> PrecisionRecallCurve:
    """The queue, best alert first: P = alerts that are about an attack / alerts, R = sessions found / `sessions`.

    `events` has group, session, score (`metrics.measure`). An alert is worth its best event. One that is about an attack
    counts from the score on at which it is (`true_from`), so nothing that was found is lost again further down.
    """
    shown = events[np.isfinite(events["score"].to_numpy(dtype=float))]
    best = np.sort(shown.groupby("group")["score"].max().to_numpy(dtype=float))
    pairs = true_alert_scores(shown)
    true = np.sort(pairs.groupby("group")["score"].max().to_numpy(dtype=float))
    found = np.sort(pairs.groupby("session", observed=True)["score"].max().to_numpy(dtype=float))
    at = np.unique(np.concatenate([best, true]))[::-1]
    return PrecisionRecallCurve(
        _count_at_least(found, at) / max(sessions, 1),
        _count_at_least(true, at) / np.maximum(_count_at_least(best, at), 1),
    )


def true_alert_scores(shown: pd.DataFrame) -> pd.DataFrame:
    """Pairs of an alert (`group`) and a `session`, with the highest `score` at which the alert, of the events that score at
    least so much, is about the session: at least a tenth of them are the session's."""
    attacked = shown.loc[shown["session"].notna(), "group"].unique()
    some = shown.loc[shown["group"].isin(attacked), ["group", "session", "score"]]
    some = some.assign(all=some.groupby("group")["score"].rank(method="max", ascending=False))
    mine = some[some["session"].notna()]
    of_session = mine.groupby(["group", "session"], observed=True)["score"].rank(
        method="max", ascending=False
    )
    about = mine[of_session >= LEAST_SHARE * mine["all"]]
    return about.groupby(["group", "session"], as_index=False, observed=True).agg(score=("score", "max"))


def _count_at_least(scores: Floats, at: Floats) -> Floats:
    """How many of the scores, ascending, are at or above each threshold: (K,)."""
    reach: Floats = (len(scores) - np.searchsorted(scores, at)).astype(float)
    return reach
