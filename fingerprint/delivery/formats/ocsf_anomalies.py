"""Unusual values beside usual ones, as `anomaly_analyses` of an OCSF finding.

Example:
    >>> anomaly_analyses(alert)[0]["anomalies"][0]["observations"]
    [{'value': '185.220.101.0/24', 'count': 9}]
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from fingerprint.core.alert import ActivityCurve, Alert, SurpriseDriver
from fingerprint.delivery.formats.text import without_empty

JsonObject = dict[str, Any]  # an `anomaly` or a `baseline`


def anomaly_analyses(alert: Alert) -> list[JsonObject]:
    """Return one analysis: the principal's values against its habits, and its activity against the expected one.

    Return no analysis for an alert without drivers and curve.
    """
    pairs = [_driver_pair(driver) for driver in alert.drivers]
    if alert.curve:
        pairs += _curve_pairs(alert.curve)
    if not pairs:
        return []
    return [
        {
            "analysis_targets": [{"name": alert.principal or "(none)", "type": "Principal"}],
            "anomalies": [anomaly for anomaly, _ in pairs],
            "baselines": [baseline for _, baseline in pairs],
        }
    ]


def _driver_pair(driver: SurpriseDriver) -> tuple[JsonObject, JsonObject]:
    """Return a surprising value of a feature, and the usual ones."""
    feature = driver.feature or "(none)"
    seen = {"value": driver.seen or "(none)", "count": driver.events}
    surprise = f"{driver.rarity}; {driver.surprise:.1f} nats above what is usual"
    return (
        _anomaly_part(feature, "Habit", surprise, [seen]),
        _anomaly_part(feature, "Habit", None, [{"value": driver.expected or "(none)"}]),
    )


def _curve_pairs(curve: ActivityCurve) -> list[tuple[JsonObject, JsonObject]]:
    """Return the flagged intervals of a curve: the counts, and the expected counts."""
    spans = [place for place in curve.flagged if place < len(curve.counts)]
    if not spans:
        return []
    name, pattern = curve.channel or "(none)", f"per {curve.interval_seconds} s, {curve.entity}"
    counted = [_observation(curve, place, curve.counts[place]) for place in spans]
    expected = [_observation(curve, place, curve.expected[place]) for place in spans]
    return [
        (
            _anomaly_part(name, "Activity", pattern, counted),
            _anomaly_part(name, "Activity", pattern, expected),
        )
    ]


def _observation(curve: ActivityCurve, place: int, value: float) -> JsonObject:
    start = curve.start + timedelta(seconds=curve.interval_seconds * place)
    ends = (start, start + timedelta(seconds=curve.interval_seconds))
    first, last = (int(moment.timestamp() * 1000) for moment in ends)
    return {
        "value": f"{value:g}" if math.isfinite(value) else "unknown",
        "timespan": {"start_time": first, "end_time": last, "type_id": 9, "type": "Time Interval"},
    }


def _anomaly_part(
    parameter: str, kind: str, pattern: str | None, observations: list[JsonObject]
) -> JsonObject:
    return without_empty(
        observation_parameter=parameter,
        observation_type=kind,
        observed_pattern=pattern,
        observations=observations,
    )
