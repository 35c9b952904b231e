"""Readiness of a new bank: the entities without enough history, the fingerprints that judge them, and when they will be ready.

Example:
    >>> readiness_forecast(bank.fingerprints, settings)["fall_back_to"]
    {'principal': 210, 'peer': 31, 'generic': 4}
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fingerprint.compute.arrays import Doubles
from fingerprint.core.alert import LEVELS
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import DAY_SECONDS

PACES = {"a day": 1, "a week": 7, "a month": 30, "later": float("inf")}  # word -> days at most


def readiness_forecast(fingerprints: pd.DataFrame, settings: Settings) -> dict[str, Any]:
    """Return the number of entities that are not ready, the levels they fall back to, and when they will be ready."""
    entities = fingerprints[(fingerprints["level"] == 0) & ~fingerprints["ready"]]
    return {
        "entities": len(entities),
        "fall_back_to": _fallback_levels(fingerprints, entities),
        "ready_in_days": _by_pace(days_until_ready(entities, settings.spectral.interval_seconds, settings)),
    }


def _fallback_levels(fingerprints: pd.DataFrame, entities: pd.DataFrame) -> dict[str, int]:
    """Return the number of entities that each level judges: the level of an entity's first ready ancestor."""
    at = entities["parent"].to_numpy()
    ready, parents = fingerprints["ready"].to_numpy(), fingerprints["parent"].to_numpy()
    for _ in LEVELS:
        at = np.where(ready[at], at, parents[at])
    level = fingerprints["level"].to_numpy()[at]
    return {LEVELS[number]: int((level == number).sum()) for number in (1, 2, 3)}


def days_until_ready(fingerprints: pd.DataFrame, interval_seconds: int, settings: Settings) -> Doubles:
    """Return the days until each fingerprint is ready (N,), at its pace between its first and its last interval.

    Example:
        >>> days_until_ready(bank.fingerprints[~bank.fingerprints["ready"]], 3600, settings)
        array([ 2.5, 11. ])
    """
    options, table = settings.entities, fingerprints
    span = ((table["last"] - table["first"] + 1) * interval_seconds / DAY_SECONDS).clip(lower=1)  # days
    events = (options.min_ready_events - table["events"]) / (table["events"].clip(lower=1) / span)
    days = (options.min_ready_days - table["days"]) / (table["days"].clip(lower=1) / span)
    return np.maximum(np.maximum(events.to_numpy(), days.to_numpy()), 0.0)


def _by_pace(days: Doubles) -> dict[str, int]:
    """Return the number of fingerprints by PACES, from the days until each is ready (N,)."""
    bins = np.searchsorted(list(PACES.values()), days)
    return dict(zip(PACES, np.bincount(bins, minlength=len(PACES)).tolist(), strict=True))
