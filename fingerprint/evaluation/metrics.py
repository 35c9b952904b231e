"""Metrics of a detector: per event, per attack session, and at a number of alerts a day.

Example:
    >>> figures = compute_metrics(events, days=7, principals=230)
    >>> figures["recall_at"]
    {'5': 0.6, '20': 0.7083, '50': 0.75}
    >>> figures["queue"]["attack_share"]                # of a true alert's events
    0.62
    >>> curve = event_curve(attack, score)              # (N,) bool, (N,) float
    >>> curve.points(limit=3)
    [[0.1, 1.0], [0.6, 0.8], [0.9, 0.3]]

`events` has one row an event: event_time, session (the attack session it belongs to, missing for all others),
strength (of the attack), score (high is strange, -inf is never shown), flagged, group (the alert it belongs
to if it is shown); and principal (a hash), where false alerts are told apart by cause.

    alert        the flagged events of one group
    hit          an alert and a session, if the alert holds an event of the session and at least a tenth of
                 the alert's events are the session's
    found        a session with a hit
    true alert   an alert with a hit; the others are false
    queue        the alerts that an analyst reads at 20 a day, the same for a method with a threshold and one without

A ratio whose denominator is 0 is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix_at_thresholds

from fingerprint.analysis.threshold_what_if import LEAST_SHARE, alert_session_pairs
from fingerprint.compute.arrays import Doubles
from fingerprint.evaluation.false_alert_causes import FalseAlertCauses

Figures = dict[str, Any]

ALERT_BUDGETS = (5, 20, 50)  # alerts a day, for the whole organisation
PRINCIPAL_BUDGETS = (1, 5, 20)  # alerts a day per 100 principals; a span of less than a day counts as a day
QUEUE_BUDGET = 20  # alerts a day, of the figures about the alerts that are read
MAX_POINTS = 100  # points of a curve that are reported


def compute_metrics(
    events: pd.DataFrame,
    days: float,
    principals: int,
    causes: FalseAlertCauses | None = None,
    equal_alerts: int | None = None,
) -> Figures:
    """Return all figures of one method.

    `days` is the length of what was scored, `principals` the number of principals, `causes` the harmless anomalies by
    principal and day; `equal_alerts` is a number of alerts at which methods are compared, by default the method's own.
    """
    sessions = _session_table(events)
    shown = events[events["flagged"]]
    found = alert_session_pairs(shown)
    alerts, true_alerts = shown["group"].nunique(), found["group"].nunique()
    false_a_day = (alerts - true_alerts) / days
    queue = rank_alerts(events)
    budgets = {budget: max(int(budget * days), 1) for budget in ALERT_BUDGETS}
    per_100 = _alerts_per_100(principals, days)
    equal = alerts if equal_alerts is None else equal_alerts
    read, pairs = _read_alerts(events, queue, {*budgets.values(), *per_100.values(), equal})
    at_budget = {budget: pairs[count] for budget, count in budgets.items()}
    return {
        "per_event": event_metrics(events),
        "per_session": session_metrics(events, shown, found, len(sessions)),
        **_sessions_found(found, at_budget, sessions),
        "alerts_read": {str(budget): count for budget, count in budgets.items()},
        "alerts_per_day": _round(alerts / days),
        "false_alerts_per_day": _round(false_a_day),
        "false_alerts_per_day_per_100_principals": _round(_ratio(100 * false_a_day, principals)),
        **_detection_delays(found, sessions),
        "found_per_100": {
            str(budget): _count_found(pairs[count], sessions) for budget, count in per_100.items()
        },
        "found_at_equal_alerts": _count_found(pairs[equal], sessions),
        "queue": queue_figures(read[budgets[QUEUE_BUDGET]], at_budget[QUEUE_BUDGET], sessions),
        "by_strength": {
            str(strength): _strength_metrics(events, found, at_budget, some)
            for strength, some in sessions.groupby("strength", observed=True)
        },
        **({"by_surprise": causes.summarise(shown[~shown["group"].isin(found["group"])])} if causes else {}),
    }


def event_metrics(events: pd.DataFrame) -> Figures:
    """Return precision, recall and F1 of `flagged`; average precision and curve of `score` (`event_curve`)."""
    attack = events["session"].notna().to_numpy()
    flagged = events["flagged"].to_numpy(dtype=bool)
    hit = int((attack & flagged).sum())
    curve = event_curve(attack, events["score"].to_numpy(dtype=float))
    return {**_precision_recall_f1(hit, int(flagged.sum()), hit, int(attack.sum())), **_curve_figures(curve)}


def session_metrics(events: pd.DataFrame, shown: pd.DataFrame, found: pd.DataFrame, sessions: int) -> Figures:
    """Return P = true alerts / alerts, R = sessions found / sessions, F1; average precision and curve of the queue."""
    correct, reported = found["group"].nunique(), shown["group"].nunique()
    rates = _precision_recall_f1(correct, reported, found["session"].nunique(), sessions)
    return {**rates, **_curve_figures(alert_curve(events, sessions))}


def queue_figures(read: pd.DataFrame, pairs: pd.DataFrame, sessions: pd.DataFrame) -> Figures:
    """Return what the alerts that an analyst reads are like, from their events and the pairs of alert and session among them.

    `attack_share`: share of a true alert's events that are its session's, the mean over alerts; `repeated_alerts`: share of the
    alerts that are of a principal with an earlier alert among them (None where principals are not known); and the seconds from a
    session's first event to the first one that an alert about it holds.
    """
    of_session = read.merge(pairs[["group", "session"]], on=["group", "session"]).groupby("group").size()
    share = (of_session / read.groupby("group").size().reindex(of_session.index)).to_numpy(dtype=float)
    alerts = read["group"].nunique()
    principals = read["principal"].nunique() if "principal" in read else None
    return {
        "alerts": int(alerts),
        "attack_share": _round(share.mean()) if len(share) else None,
        "repeated_alerts": None if principals is None else _round(_ratio(alerts - principals, alerts)),
        **_detection_delays(pairs, sessions),
    }


def rank_alerts(events: pd.DataFrame) -> pd.DataFrame:
    """Return the queue: alerts (`group`) by their best score (`best`) over all scored events, ties by time, then by name."""
    some = events[np.isfinite(events["score"].to_numpy(dtype=float))]
    by_alert = some.groupby("group")
    alerts = pd.DataFrame(
        {"best": by_alert["score"].max(), "first": by_alert["event_time"].min()}
    ).reset_index()
    return alerts.sort_values(["best", "first", "group"], ascending=[False, True, True])


def within_budget(events: pd.DataFrame, queue: pd.DataFrame, budget: int) -> pd.DataFrame:
    """Return the events shown when only the `budget` best alerts of the `queue` are, cut at the score of the last of them.

    So the threshold fits the budget with hindsight, for every method alike.
    """
    kept = queue.head(budget)
    least = kept["best"].min() if len(kept) else np.inf
    shown: pd.DataFrame = events[(events["score"] >= least) & events["group"].isin(kept["group"])]
    return shown


def _alerts_per_100(principals: int, days: float) -> dict[int, int]:
    """Return how many alerts each of PRINCIPAL_BUDGETS is, one at least."""
    return {budget: max(round(budget * principals / 100 * max(days, 1)), 1) for budget in PRINCIPAL_BUDGETS}


# --- parts --------------------------------------------------------------------------------------------------


def _read_alerts(
    events: pd.DataFrame, queue: pd.DataFrame, counts: set[int]
) -> tuple[dict[int, pd.DataFrame], dict[int, pd.DataFrame]]:
    """Return the events of the best alerts, and the pairs of alert and session among them, for each number of alerts.

    Numbers past the end of the queue are one.
    """
    length = {count: min(count, len(queue)) for count in counts}
    read = {some: within_budget(events, queue, some) for some in set(length.values())}
    pairs = {some: alert_session_pairs(shown) for some, shown in read.items()}
    return (
        {count: read[some] for count, some in length.items()},
        {count: pairs[some] for count, some in length.items()},
    )


def _session_table(events: pd.DataFrame) -> pd.DataFrame:
    """Return one row an attack session: its strength, and when it began."""
    by_session = events[events["session"].notna()].groupby("session", observed=True)
    return pd.DataFrame({"strength": by_session["strength"].first(), "began": by_session["event_time"].min()})


def _sessions_found(
    found: pd.DataFrame, at_budget: dict[int, pd.DataFrame], sessions: pd.DataFrame
) -> Figures:
    """Return how many sessions there are and how many are found, at the threshold and within each budget."""
    count, there = _count_found(found, sessions), len(sessions)
    counts = {str(budget): _count_found(some, sessions) for budget, some in at_budget.items()}
    return {
        "sessions": there,
        "found": count,
        "recall": _round(_ratio(count, there)),
        "found_at": counts,
        "recall_at": {budget: _round(_ratio(some, there)) for budget, some in counts.items()},
    }


def _strength_metrics(
    events: pd.DataFrame, found: pd.DataFrame, at_budget: dict[int, pd.DataFrame], sessions: pd.DataFrame
) -> Figures:
    """Return the figures of one strength: false alerts have none, so there is no precision."""
    of_strength = events["session"].isin(sessions.index)
    return {
        **_sessions_found(found, at_budget, sessions),
        "event_recall": _round(_ratio(int(events.loc[of_strength, "flagged"].sum()), int(of_strength.sum()))),
        **_detection_delays(found, sessions),
    }


def _count_found(found: pd.DataFrame, sessions: pd.DataFrame) -> int:
    return int(sessions.index.isin(found["session"]).sum())


def _detection_delays(found: pd.DataFrame, sessions: pd.DataFrame) -> Figures:
    """Return seconds of event time from a found session's first event to the first event that an alert about it holds.

    The wait for records to arrive, or for an interval to fill, is not included (`time_to_alert` has that).
    """
    first = found.groupby("session", observed=True)["first"].min()
    first = first[first.index.isin(sessions.index)]
    seconds = (first - sessions["began"].reindex(first.index)).dt.total_seconds().to_numpy(dtype=float)
    return {
        "median_seconds_to_detect": _quantile(seconds, 0.5),
        "p90_seconds_to_detect": _quantile(seconds, 0.9),
    }


def _curve_figures(curve: PrecisionRecallCurve) -> Figures:
    return {"average_precision": _round(curve.average_precision()), "curve": curve.points()}


def _precision_recall_f1(correct: int, reported: int, found: int, total: int) -> Figures:
    """Return precision = correct / reported, recall = found / total, F1 = 2 P R / (P + R)."""
    precision, recall = _ratio(correct, reported), _ratio(found, total)
    f1 = _ratio(2 * precision * recall, precision + recall)
    return {
        "precision": _round(precision), "recall": _round(recall), "f1": _round(f1),
        "reported": reported, "correct": correct, "total": total, "found": found,
    }  # fmt: skip


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _round(value: float) -> float:
    return round(float(value), 4)


def _quantile(values: NDArray[Any], q: float) -> float | None:
    return round(float(np.quantile(values, q)), 1) if len(values) else None


# --- precision-recall curves -------------------------------------------------------------------------------


@dataclass(frozen=True)
class PrecisionRecallCurve:
    """Recall and precision, (K,) each, at K thresholds, highest first."""

    recall: Doubles
    precision: Doubles

    def average_precision(self) -> float:
        """Return AP = sum over k of (R_k - R_k-1) P_k with R_0 = 0; 0 for an empty curve."""
        return float(np.sum(np.diff(self.recall, prepend=0.0) * self.precision))

    def points(self, limit: int = MAX_POINTS) -> list[list[float]]:
        """Return at most `limit` [recall, precision], evenly among those at which recall grows; the first and last are kept."""
        grows = np.flatnonzero(np.diff(self.recall, prepend=0.0) > 0)
        some = grows[np.unique(np.linspace(0, len(grows) - 1, min(limit, len(grows))).round().astype(int))]
        return [
            [round(float(self.recall[at]), 4), round(float(self.precision[at]), 4)] for at in some.tolist()
        ]


def event_curve(attack: NDArray[np.bool_], score: Doubles) -> PrecisionRecallCurve:
    """Return the curve over single events. Events that are never shown (-inf) lie on no point, so recall may end below 1."""
    shown = np.isfinite(score)
    if not shown.any():
        return PrecisionRecallCurve(np.empty(0), np.empty(0))
    _, false, _, true, _ = confusion_matrix_at_thresholds(attack[shown], score[shown])
    return PrecisionRecallCurve(true / max(int(attack.sum()), 1), true / (true + false))


def alert_curve(events: pd.DataFrame, sessions: int) -> PrecisionRecallCurve:
    """Return the curve of the queue, best alert first: P = alerts about an attack / alerts, R = sessions found / `sessions`.

    `events` has group, session, score. An alert is worth its best event. One that is about an attack counts from the score on
    at which it is (`true_alert_scores`), so nothing that was found is lost again further down. Scikit-learn's curves do not
    fit: they take one label a score, while precision counts alerts here and recall counts sessions.
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
    """Return pairs of an alert (`group`) and a `session`, with the highest `score` from which on the alert is about the session.

    It is about the session if at least a tenth of its events with that score or more are the session's.
    """
    attacked = shown.loc[shown["session"].notna(), "group"].unique()
    some = shown.loc[shown["group"].isin(attacked), ["group", "session", "score"]]
    some = some.assign(all=some.groupby("group")["score"].rank(method="max", ascending=False))
    attacks = some[some["session"].notna()]
    of_session = attacks.groupby(["group", "session"], observed=True)["score"].rank(
        method="max", ascending=False
    )
    about = attacks[of_session >= LEAST_SHARE * attacks["all"]]
    return about.groupby(["group", "session"], observed=True)[["score"]].max().reset_index()


def _count_at_least(scores: Doubles, at: Doubles) -> Doubles:
    """Return how many of the scores, ascending, are at or above each threshold: (K,)."""
    reach: Doubles = (len(scores) - np.searchsorted(scores, at)).astype(float)
    return reach
