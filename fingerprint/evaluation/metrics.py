"""What is reported of a detector: per event, per attack session, and at a number of alerts a day.

Example:
    >>> figures = measure(events, days=7, principals=230)
    >>> figures["recall_at"]
    {'5': 0.6, '20': 0.7083, '50': 0.75}

`events` has one row an event: event_time, session (the attack session it belongs to, missing for all others),
strength (of the attack), score (high is strange, -inf is never shown), flagged, group (the alert it belongs
to if it is shown); and principal (a hash), where false alerts are told apart by cause.

    alert        the flagged events of one group
    hit          an alert and a session, if the alert holds an event of the session and at least a tenth of
                 the alert's events are the session's
    found        a session with a hit
    true alert   an alert with a hit; the others are false

A ratio with nothing under the line is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.analysis.threshold_what_if import hits
from fingerprint.evaluation import curves
from fingerprint.evaluation.false_alert_causes import Causes

Figures = dict[str, Any]

BUDGETS = (5, 20, 50)  # alerts a day, for the whole organisation


def measure(events: pd.DataFrame, days: float, principals: int, causes: Causes | None = None) -> Figures:
    """All figures of one method. `days` is the length of what was judged, `principals` how many there are, `causes` whom
    which harmless surprise befell."""
    sessions = _sessions(events)
    shown = events[events["flagged"]]
    found = hits(shown)
    alerts, true_alerts = shown["group"].nunique(), found["group"].nunique()
    false_a_day = (alerts - true_alerts) / days
    queue = ranked(events)
    at_budget = {budget: hits(_best(events, queue, max(int(budget * days), 1))) for budget in BUDGETS}
    return {
        "per_event": per_event(events),
        "per_session": per_session(events, shown, found, len(sessions)),
        **_found(found, at_budget, sessions),
        "alerts_per_day": _round(alerts / days),
        "false_alerts_per_day": _round(false_a_day),
        "false_alerts_per_day_per_100_principals": _round(_ratio(100 * false_a_day, principals)),
        **_delays(found, sessions),
        "by_strength": {
            str(strength): _of_strength(events, found, at_budget, some)
            for strength, some in sessions.groupby("strength", observed=True)
        },
        **({"by_surprise": causes.figures(shown[~shown["group"].isin(found["group"])])} if causes else {}),
    }


def per_event(events: pd.DataFrame) -> Figures:
    """Precision, recall and F1 of `flagged`; the average precision of `score` and its curve (`curves.of_events`)."""
    attack = events["session"].notna().to_numpy()
    flagged = events["flagged"].to_numpy(dtype=bool)
    hit = int((attack & flagged).sum())
    curve = curves.of_events(attack, events["score"].to_numpy(dtype=float))
    return {**_rates(hit, int(flagged.sum()), hit, int(attack.sum())), **_curve(curve)}


def per_session(events: pd.DataFrame, shown: pd.DataFrame, found: pd.DataFrame, sessions: int) -> Figures:
    """P = true alerts / alerts, R = sessions found / sessions, F1; the average precision of the queue of alerts, by their
    score, and its curve (`curves.of_alerts`)."""
    right, said = found["group"].nunique(), shown["group"].nunique()
    rates = _rates(right, said, found["session"].nunique(), sessions)
    return {**rates, **_curve(curves.of_alerts(events, sessions))}


def ranked(events: pd.DataFrame) -> pd.DataFrame:
    """The queue: alerts (`group`) by their best score (`best`) over all that was judged, ties by time, then by name."""
    some = events[np.isfinite(events["score"].to_numpy(dtype=float))]
    alerts = some.groupby("group").agg(best=("score", "max"), first=("event_time", "min")).reset_index()
    return alerts.sort_values(["best", "first", "group"], ascending=[False, True, True])


def within(events: pd.DataFrame, most: int) -> pd.DataFrame:
    """The events shown when only the `most` best alerts are, cut at the score of the last of them.

    So the threshold fits the budget with hindsight, for every method alike.
    """
    return _best(events, ranked(events), most)


# --- parts --------------------------------------------------------------------------------------------------


def _best(events: pd.DataFrame, queue: pd.DataFrame, most: int) -> pd.DataFrame:
    kept = queue.head(most)
    least = kept["best"].min() if len(kept) else np.inf
    shown: pd.DataFrame = events[(events["score"] >= least) & events["group"].isin(kept["group"])]
    return shown


def _sessions(events: pd.DataFrame) -> pd.DataFrame:
    """One row an attack session: its strength, and when it began."""
    attack = events[events["session"].notna()]
    return attack.groupby("session", observed=True).agg(
        strength=("strength", "first"), began=("event_time", "min")
    )


def _found(found: pd.DataFrame, at_budget: dict[int, pd.DataFrame], sessions: pd.DataFrame) -> Figures:
    """How many sessions there are and how many are found, at the threshold and within each budget."""
    count, there = _count(found, sessions), len(sessions)
    counts = {str(budget): _count(some, sessions) for budget, some in at_budget.items()}
    return {
        "sessions": there,
        "found": count,
        "recall": _round(_ratio(count, there)),
        "found_at": counts,
        "recall_at": {budget: _round(_ratio(some, there)) for budget, some in counts.items()},
    }


def _of_strength(
    events: pd.DataFrame, found: pd.DataFrame, at_budget: dict[int, pd.DataFrame], sessions: pd.DataFrame
) -> Figures:
    """What can be said of one strength: false alerts have none, so there is no precision."""
    mine = events["session"].isin(sessions.index)
    return {
        **_found(found, at_budget, sessions),
        "event_recall": _round(_ratio(int(events.loc[mine, "flagged"].sum()), int(mine.sum()))),
        **_delays(found, sessions),
    }


def _count(found: pd.DataFrame, sessions: pd.DataFrame) -> int:
    return int(sessions.index.isin(found["session"]).sum())


def _delays(found: pd.DataFrame, sessions: pd.DataFrame) -> Figures:
    """Seconds of event time from a found session's first event to the first that an alert about it holds.

    What an alert waits for records to arrive, or for its interval to fill, is not in there (`tipping` has that).
    """
    first = found.groupby("session", observed=True)["first"].min()
    first = first[first.index.isin(sessions.index)]
    seconds = (first - sessions["began"].reindex(first.index)).dt.total_seconds().to_numpy(dtype=float)
    return {
        "median_seconds_to_detect": _quantile(seconds, 0.5),
        "p90_seconds_to_detect": _quantile(seconds, 0.9),
    }


def _curve(curve: curves.Curve) -> Figures:
    return {"average_precision": _round(curve.average_precision()), "curve": curve.points()}


def _rates(right: int, said: int, found: int, there: int) -> Figures:
    """precision = right / said, recall = found / there, F1 = 2 P R / (P + R)."""
    precision, recall = _ratio(right, said), _ratio(found, there)
    f1 = _ratio(2 * precision * recall, precision + recall)
    return {
        "precision": _round(precision), "recall": _round(recall), "f1": _round(f1),
        "said": said, "right": right, "there": there, "found": found,
    }  # fmt: skip


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _round(value: float) -> float:
    return round(float(value), 4)


def _quantile(values: NDArray[Any], q: float) -> float | None:
    return round(float(np.quantile(values, q)), 1) if len(values) else None
