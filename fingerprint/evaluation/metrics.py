"""What is reported of a detector: per event, per attack session, and at a number of alerts a day.

Example:
    >>> figures = measure(events, days=7, principals=230)
    >>> figures["recall_at"]
    {'5': 0.6, '20': 0.7083, '50': 0.75}

`events` has one row an event: event_time, session (the attack session it belongs to, missing for all others),
strength (of the attack), score (high is strange, -inf is never shown), flagged, group (the alert it belongs
to if it is shown).

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
from sklearn.metrics import average_precision_score

Figures = dict[str, Any]

BUDGETS = (5, 20, 50)  # alerts a day, for the whole organisation
LEAST_SHARE = 0.1  # of an alert's events, for it to be about the attack


def measure(events: pd.DataFrame, days: float, principals: int) -> Figures:
    """All figures of one method. `days` is the length of what was judged, `principals` how many there are."""
    sessions = _sessions(events)
    shown = events[events["flagged"]]
    found = hits(shown)
    alerts, true_alerts = shown["group"].nunique(), found["group"].nunique()
    false_a_day = (alerts - true_alerts) / days
    at_budget = {budget: hits(within(events, max(int(budget * days), 1))) for budget in BUDGETS}
    return {
        "per_event": per_event(events),
        "per_session": _rates(true_alerts, alerts, found["session"].nunique(), len(sessions)),
        "recall_at": {str(budget): _recall(some, sessions) for budget, some in at_budget.items()},
        "alerts_per_day": _round(alerts / days),
        "false_alerts_per_day": _round(false_a_day),
        "false_alerts_per_day_per_100_principals": _round(_ratio(100 * false_a_day, principals)),
        **_delays(found, sessions),
        "by_strength": {
            str(strength): _of_strength(events, found, at_budget, some)
            for strength, some in sessions.groupby("strength", observed=True)
        },
    }


def per_event(events: pd.DataFrame) -> Figures:
    """Precision, recall and F1 of `flagged`, and the average precision of `score`.

    AP = sum over n of (R_n - R_n-1) P_n; n runs over the distinct scores, highest first, P_n and R_n are
    precision and recall of the events that score at least so much.
    """
    attack = events["session"].notna().to_numpy()
    flagged = events["flagged"].to_numpy(dtype=bool)
    hit = int((attack & flagged).sum())
    ranks = np.unique(events["score"].to_numpy(dtype=float), return_inverse=True)[1]
    precision = float(average_precision_score(attack, ranks)) if attack.any() else 0.0
    return {**_rates(hit, int(flagged.sum()), hit, int(attack.sum())), "average_precision": _round(precision)}


def hits(shown: pd.DataFrame) -> pd.DataFrame:
    """Pairs of an alert (`group`) and a `session` it is about; `first` is its earliest event of it."""
    attack = shown[shown["session"].notna()]
    pairs = attack.groupby(["group", "session"], as_index=False, observed=True).agg(
        events=("event_time", "size"), first=("event_time", "min")
    )
    size = shown.groupby("group").size()
    about = pairs["events"] >= LEAST_SHARE * pairs["group"].map(size)
    return pairs.loc[about.to_numpy(dtype=bool), ["group", "session", "first"]]


def within(events: pd.DataFrame, most: int) -> pd.DataFrame:
    """The events shown when only the `most` best alerts are, cut at the score of the last of them.

    Alerts are ranked by their best score over all that was judged, ties by time, then by name. So the
    threshold fits the budget with hindsight, for every method alike.
    """
    some = events[np.isfinite(events["score"].to_numpy(dtype=float))]
    alerts = some.groupby("group").agg(best=("score", "max"), first=("event_time", "min")).reset_index()
    kept = alerts.sort_values(["best", "first", "group"], ascending=[False, True, True]).head(most)
    least = kept["best"].min() if len(kept) else np.inf
    shown: pd.DataFrame = some[some["group"].isin(kept["group"]) & (some["score"] >= least)]
    return shown


# --- parts --------------------------------------------------------------------------------------------------


def _sessions(events: pd.DataFrame) -> pd.DataFrame:
    """One row an attack session: its strength, and when it began."""
    attack = events[events["session"].notna()]
    return attack.groupby("session", observed=True).agg(
        strength=("strength", "first"), began=("event_time", "min")
    )


def _of_strength(
    events: pd.DataFrame, found: pd.DataFrame, at_budget: dict[int, pd.DataFrame], sessions: pd.DataFrame
) -> Figures:
    """What can be said of one strength: false alerts have none, so there is no precision."""
    mine = events["session"].isin(sessions.index)
    return {
        "sessions": len(sessions),
        "recall": _recall(found, sessions),
        "event_recall": _round(_ratio(int(events.loc[mine, "flagged"].sum()), int(mine.sum()))),
        "recall_at": {str(budget): _recall(some, sessions) for budget, some in at_budget.items()},
        **_delays(found, sessions),
    }


def _recall(found: pd.DataFrame, sessions: pd.DataFrame) -> float:
    return _round(_ratio(int(sessions.index.isin(found["session"]).sum()), len(sessions)))


def _delays(found: pd.DataFrame, sessions: pd.DataFrame) -> Figures:
    """Seconds of event time from a found session's first event to the first that an alert about it holds.

    What an alert waits for records to arrive, or for its interval to fill, is not in there.
    """
    first = found.groupby("session", observed=True)["first"].min()
    first = first[first.index.isin(sessions.index)]
    seconds = (first - sessions["began"].reindex(first.index)).dt.total_seconds().to_numpy(dtype=float)
    return {
        "median_seconds_to_detect": _quantile(seconds, 0.5),
        "p90_seconds_to_detect": _quantile(seconds, 0.9),
    }


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
