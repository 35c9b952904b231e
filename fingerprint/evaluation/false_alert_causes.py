"""False alerts by cause: which harmless surprise had befallen the principal on that day.

Example:
    >>> causes = Causes.of(surprises, principals, first_day, last_day)
    >>> causes.figures(false_events)["new_hire"]
    {'principal_days': 1, 'false_alerts': 1, 'highest_score': 62.0}

A surprise is a line of the simulator's: surprise, key (a principal, or "*" for everybody), from, to (dates, both
included). It befalls its principal on each of these days, whether or not the principal did anything. An alert has the day
of its first event shown; it counts for every surprise that its principal had on that day, and for `ordinary day` if there
was none. Of a new hire the first day is apart from those that follow (`new_hire_later`).

    rate = false alerts / principal-days        (of a surprise; of ordinary days)
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

EVERYBODY = "*"
ORDINARY_DAY = "ordinary day"
DAY_MICROSECONDS = 86_400_000_000
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class FalseAlertCauses:
    """`befell`: one row a surprise, principal (hash) and day (number from the epoch), distinct; `principal_days`: all there
    are in what is judged, with or without a surprise."""

    anomaly_days: pd.DataFrame
    principal_days: int

    @classmethod
    def from_anomalies(
        cls, anomalies: Iterable[Mapping[str, Any]], principals: Hashes, first_day: int, last_day: int
    ) -> FalseAlertCauses:
        """The surprises of the judged days, of `principals` (P,), hashed, distinct: all that were ever seen."""
        there = set(principals.tolist())
        parts = [_anomaly_days(surprise, principals, there, first_day, last_day) for surprise in anomalies]
        nothing = pd.DataFrame(
            {"surprise": [], "principal": np.empty(0, np.uint64), "day": np.empty(0, np.int64)}
        )
        befell = pd.concat(parts, ignore_index=True) if parts else nothing
        return cls(befell.drop_duplicates(), len(principals) * (last_day - first_day + 1))

    def summarise(self, false_alerts: pd.DataFrame) -> dict[str, Any]:
        """By surprise: principal-days that had it, false alerts on them, the highest score of one (None without any).
        `false` has the events of false alerts: group, principal, event_time, score."""
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
    """Whom one surprise befell on which of the judged days."""
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
    """Everybody, or one principal, or nobody if it was never seen."""
    if key == EVERYBODY:
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
