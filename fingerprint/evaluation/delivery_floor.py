"""Attack sessions found, and false alerts a day, of the alerts at or above each urgency.

A receiver is sent the alerts whose urgency reaches its floor (`deliver.NAME.min_urgency`); this table is what the floor trades.

Example:
    >>> table = floor_figures(events, days=7)           # `events` as for `metrics.compute_metrics`, scored by urgency
    >>> table["60"]["found"], table["60"]["false_alerts_per_day"]
    (9, 0.1429)
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fingerprint.analysis.threshold_what_if import alert_session_pairs
from fingerprint.evaluation.metrics import Figures

FLOORS = tuple(range(0, 95, 5))  # urgencies; the first one shows every alert


def floor_figures(events: pd.DataFrame, days: float) -> Figures:
    """Return alerts, false alerts and sessions found of the flagged events at or above each floor, by floor (as text).

    `events` has one row an event with `score`, the urgency of its alert, and the columns of `metrics.compute_metrics`; `days` is
    the length of what was scored. Counts add up over organisations, rates are averaged (`statistics.pool_figures`).
    """
    flagged = events[events["flagged"].to_numpy(bool)]
    attack = events[events["session"].notna()]
    strength = attack.groupby("session", observed=True)["strength"].first()
    urgency = flagged.groupby("group", observed=True)["score"].max()
    pairs = alert_session_pairs(flagged)
    return {str(floor): _figures_at(urgency, pairs, strength, days, floor) for floor in FLOORS}


def _figures_at(
    urgency: pd.Series, pairs: pd.DataFrame, strength: pd.Series, days: float, floor: int
) -> Figures:
    shown = urgency.index[urgency.to_numpy(float) >= floor]
    hits = pairs[pairs["group"].isin(shown)]
    alerts, false = len(shown), len(shown) - hits["group"].nunique()
    found = strength[strength.index.isin(hits["session"])].astype(str).value_counts()
    return {
        "sessions": len(strength),
        "found": int(found.sum()),
        "alerts": int(alerts),
        "false_alerts": int(false),
        "alerts_per_day": round(float(alerts / days), 4),
        "false_alerts_per_day": round(float(false / days), 4),
        "found_by_strength": {
            str(name): int(found.get(str(name), 0)) for name in np.unique(strength.astype(str))
        },
    }
