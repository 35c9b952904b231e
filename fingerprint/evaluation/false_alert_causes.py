"""False alerts by cause: which harmless anomaly had affected the principal on that day.

Example:
    >>> causes = FalseAlertCauses.from_anomalies(anomalies, principals, first_day, last_day)
    >>> causes.summarise(false_events)["new_hire"]
    {'principal_days': 1, 'false_alerts': 1, 'highest_score': 62.0}

An anomaly is a line of the simulator's labels.surprises.jsonl: surprise (its name), key (a principal, or "*" for all), from,
to (dates, both included). It affects its principal on each of these days, active or not. An alert has the day
of its first event shown; it counts for every anomaly that its principal had on that day, and for `ordinary day` if there
was none. Of a new hire the first day is apart from those that follow (`new_hire_later`).

    rate = false alerts / principal-days        (of an anomaly; of ordinary days)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.core.time_range import DAY_MICROSECONDS

ALL_PRINCIPALS = "*"
ORDINARY_DAY = "ordinary day"
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class FalseAlertCauses:
    """Anomalies by the principal and day that they affected, of the days that are scored.

    `anomaly_days` has one row an anomaly (`surprise`), principal (hash) and day (number from the epoch), distinct;
    `principal_days` counts all, with or without an anomaly.
    """

    anomaly_days: pd.DataFrame
    principal_days: int

    @classmethod
    def from_anomalies(
        cls, anomalies: Iterable[Mapping[str, Any]], principals: Hashes, first_day: int, last_day: int
    ) -> FalseAlertCauses:
        """Return the anomalies of the scored days; `principals` (P,) are the hashes of all that were ever seen, distinct."""
        there = set(principals.tolist())
        parts = [_anomaly_days(anomaly, principals, there, first_day, last_day) for anomaly in anomalies]
        nothing = pd.DataFrame(
            {"surprise": [], "principal": np.empty(0, np.uint64), "day": np.empty(0, np.int64)}
        )
        affected = pd.concat(parts, ignore_index=True) if parts else nothing
        return cls(affected.drop_duplicates(), len(principals) * (last_day - first_day + 1))

    def summarise(self, false_alerts: pd.DataFrame) -> dict[str, Any]:
        """Return by anomaly: principal-days that had it, false alerts on them, the highest score of one (None without any).

        `false_alerts` has the events of false alerts: group, principal, event_time, score.
        """
        alerts = false_alerts.groupby("group", as_index=False).agg(
            principal=("principal", "first"), time=("event_time", "min"), score=("score", "max")
        )
        alerts["day"] = alerts["time"].astype("datetime64[us, UTC]").astype("int64") // DAY_MICROSECONDS
        caused = alerts.merge(self.anomaly_days, on=["principal", "day"])
        ordinary = alerts[~alerts["group"].isin(caused["group"])]
        names = sorted(self.anomaly_days["surprise"].unique())
        odd = len(self.anomaly_days.drop_duplicates(["principal", "day"]))
        return {
            name: _cause_figures(
                caused[caused["surprise"] == name], int((self.anomaly_days["surprise"] == name).sum())
            )
            for name in names
        } | {ORDINARY_DAY: _cause_figures(ordinary, self.principal_days - odd)}


def _anomaly_days(
    anomaly: Mapping[str, Any], principals: Hashes, there: set[int], first_day: int, last_day: int
) -> pd.DataFrame:
    """Return one row for each principal and scored day that one anomaly affects."""
    begins = _day(str(anomaly["from"]))
    days = np.arange(max(begins, first_day), min(_day(str(anomaly["to"])), last_day) + 1)
    who = _affected_principals(str(anomaly["key"]), principals, there)
    name = str(anomaly["surprise"])
    names = (
        np.where(days == begins, name, f"{name}_later") if name == "new_hire" else np.full(len(days), name)
    )
    return pd.DataFrame(
        {
            "surprise": np.tile(names.astype(object), len(who)),
            "principal": np.repeat(who, len(days)),
            "day": np.tile(days.astype(np.int64), len(who)),
        }
    )


def _affected_principals(key: str, principals: Hashes, there: set[int]) -> Hashes:
    """Return all principals, or one, or none if it was never seen."""
    if key == ALL_PRINCIPALS:
        return principals
    who = hashing.hash_string(key)
    return np.array([who] if int(who) in there else [], np.uint64)


def _day(text: str) -> int:
    return (date.fromisoformat(text[:10]) - _EPOCH).days


def _cause_figures(alerts: pd.DataFrame, principal_days: int) -> dict[str, Any]:
    return {
        "principal_days": principal_days,
        "false_alerts": len(alerts),
        "highest_score": round(float(alerts["score"].max()), 4) if len(alerts) else None,
    }
