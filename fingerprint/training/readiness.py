"""Readiness of a new bank: how many entities lack history of their own, who judges them instead, and when they will be ready.

Example:
    >>> readiness_forecast(bank.fingerprints, settings)["fall_back_to"]
    {'principal': 210, 'peer': 31, 'generic': 4}
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fingerprint.core.alert import LEVELS
from fingerprint.core.settings import Settings

DAY_SECONDS = 86_400
PACES = {"a day": 1, "a week": 7, "a month": 30, "later": float("inf")}  # in so many days at most


def readiness_forecast(fingerprints: pd.DataFrame, settings: Settings) -> dict[str, Any]:
    """Return how many entities are not ready, what they fall back to, and when they will be ready at the present pace."""
    entities = fingerprints[(fingerprints["level"] == 0) & ~fingerprints["ready"]]
    return {
        "entities": len(entities),
        "fall_back_to": _fallback_levels(fingerprints, entities),
        "ready_in_days": _days_until_ready(entities, settings),
    }


def _fallback_levels(fingerprints: pd.DataFrame, entities: pd.DataFrame) -> dict[str, int]:
    """Return how many entities are judged by each level: that of their first ancestor that is ready."""
    at = entities["parent"].to_numpy()
    ready, parents = fingerprints["ready"].to_numpy(), fingerprints["parent"].to_numpy()
    for _ in LEVELS:
        at = np.where(ready[at], at, parents[at])
    level = fingerprints["level"].to_numpy()[at]
    return {LEVELS[number]: int((level == number).sum()) for number in (1, 2, 3)}


def _days_until_ready(entities: pd.DataFrame, settings: Settings) -> dict[str, int]:
    """Return how many entities will have the events and days that `entities` of the settings asks for, by the time it takes."""
    options = settings.entities
    seen = (entities["last"] - entities["first"] + 1) * settings.spectral.interval_seconds / DAY_SECONDS
    span = seen.clip(lower=1)  # days
    days = pd.concat(
        [
            (options.min_ready_events - entities["events"]) / (entities["events"] / span),
            (options.min_ready_days - entities["days"]) / (entities["days"] / span),
        ],
        axis=1,
    ).max(axis=1)
    bins = pd.cut(days, [float("-inf"), *PACES.values()], labels=list(PACES))
    return {str(name): int(count) for name, count in bins.value_counts(sort=False).items()}
