"""Thresholds on a terminal: `fingerprint thresholds show`, `estimate` and `set`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fingerprint.adapters.system import SystemClock
from fingerprint.analysis import threshold_what_if
from fingerprint.analysis.threshold_service import HISTORY_DAYS, ThresholdForecast
from fingerprint.core.case import ThresholdOverride
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import check_days, format_iso
from fingerprint.registry import versions
from fingerprint.store import open_store
from fingerprint.web import formatting
from pipelines.runtime import host

DEFAULT_FOLDER = Path("bank")
ALERTS_PER_DAY = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)  # for each a threshold is estimated


def show_threshold(database_url: str, settings: Settings, folder: Path | None = None) -> dict[str, Any]:
    """Return the current threshold, its author, and all overrides; `z` is that of the alert budget for the bank in `folder`.

    Raise FingerprintError if `folder` serves no bank. Without `folder`, DEFAULT_FOLDER is used if it serves one.
    """
    return _threshold_in_force(database_url, settings, _folder_of_bank(folder))


def _threshold_in_force(database_url: str, settings: Settings, bank: Path | None) -> dict[str, Any]:
    store = open_store(database_url, create=False)
    history, override = store.thresholds.history(), store.thresholds.current()
    changes = threshold_what_if.describe_overrides(history)
    current = threshold_what_if.describe_threshold(
        threshold_what_if.apply_override(settings, override), override
    )
    overrides = [
        asdict(each) | {"at": format_iso(each.at), "change": change}
        for each, change in zip(history, changes, strict=True)
    ]
    return {
        "current": {
            **current,
            "z": ThresholdForecast(store, bank, settings, SystemClock()).known_threshold(),
        },
        "overrides": overrides,
    }


def estimate_thresholds(
    database_url: str,
    folder: Path | None,
    settings: Settings,
    days: float = HISTORY_DAYS,
) -> list[dict[str, Any]]:
    """Return estimates: of the current threshold, then of a threshold for each quorum and number of alerts a day.

    Raises FingerprintError for too many days, or if `folder` serves no bank. Without `folder`, DEFAULT_FOLDER is used if it
    serves one.
    """
    check_days(days)
    bank = _folder_of_bank(folder)
    forecast = ThresholdForecast(open_store(database_url, create=False), bank, settings, SystemClock(), days)
    rows = [{"wanted": None, **asdict(forecast.current())}]
    for quorum in range(forecast.detector_count, 0, -1):
        for wish in ALERTS_PER_DAY:
            rows.append(
                {
                    "wanted": wish,
                    **asdict(forecast.estimate_rate(wish, quorum)),
                }
            )
    return rows


def _folder_of_bank(folder: Path | None) -> Path:
    """Return the folder of the bank to use. Raise FingerprintError if a folder is named and serves no bank."""
    if folder is None:
        return DEFAULT_FOLDER
    versions.require_served_version(folder)
    return folder


def set_threshold(
    database_url: str,
    settings: Settings,
    why: str,
    threshold: float | None = None,
    quorum: int | None = None,
    alerts_per_day: float | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Override threshold and quorum from now on; without both, the settings apply again. Return figures with an `estimate`.

    `alerts_per_day` sets the threshold that shows so many alerts. `estimate` says how many alerts the last days would have shown;
    None without a z. Raises FingerprintError if no threshold shows so few alerts, or, without `force`, if none of the alerts of
    the last days would have been shown.
    """
    forecast = ThresholdForecast(open_store(database_url, create=False), None, settings, SystemClock())
    made = forecast.set_override(
        threshold, quorum, why, host.operator_name(), alerts_per_day, may_hide_all=force
    )
    figures = _threshold_in_force(database_url, settings, None)
    return figures | {"estimate": _estimate_override(forecast, made, settings)}


def _estimate_override(
    forecast: ThresholdForecast, made: ThresholdOverride, settings: Settings
) -> dict[str, Any] | None:
    if made.threshold is None:
        return None
    estimate = forecast.estimate(made.threshold, made.quorum or settings.voting.quorum)
    return {
        "days": forecast.days,
        "days_with_votes": round(forecast.recent_votes().days, 1),
        "alerts_per_day": estimate.alerts_per_day,
        "stored_alerts_per_day": round(forecast.stored_alerts_per_day(), 2),
        "note": estimate.note,
    }


# --- for people -------------------------------------------------------------------------------------------------------


def print_threshold(figures: dict[str, Any]) -> None:
    """Print the current threshold and quorum."""
    current = figures["current"]
    whose = (
        f", set by {current['by']} at {_second(current['at'])}"
        if "by" in current
        else ", as the settings say"
    )
    z = "" if current["z"] is None else f" {current['z']:.2f}"
    budget = f" for an alert budget of {current['budget_per_100_principals']:g} a day per 100 principals"
    of_budget = budget if current["threshold"] is None else ""
    print(printable(f"threshold{z}{of_budget}, quorum {current['quorum']}{whose}"))
    if estimate := figures.get("estimate"):
        shown, there = (
            formatting.format_rate(estimate[name]) for name in ("alerts_per_day", "stored_alerts_per_day")
        )
        days, counted = estimate["days"], estimate["days_with_votes"]
        span = f"{days:g} days" if counted > days - 1 else f"{days:g} days, {counted:g} of them with votes,"
        print(f"in the last {span} it would have shown {shown} alerts a day; there were {there}")
        if estimate["note"]:
            print(estimate["note"])
    if not z:
        print("which z that is, a bank says: fingerprint thresholds show --bank FOLDER")
    for each in figures["overrides"]:
        print(printable(f"  {_second(each['at'])}  {each['by']}: {each['change']} ({each['why']})"))


def _second(at: str) -> str:
    """Return an ISO time in UTC to the second: `2026-11-29T14:03:34Z`."""
    return f"{at[:19]}Z"


def print_threshold_estimates(rows: list[dict[str, Any]]) -> None:
    """Print a table of estimates, with a row for each threshold."""
    table = Table(box=None, pad_edge=False)
    for name in (
        "wanted",
        "votes needed",
        "threshold",
        "alerts a day",
        "confirmed attacks",
        "attack sessions",
    ):
        table.add_column(name, justify="right")
    for row in rows:
        budget = "now" if row["wanted"] is None else f"{row['wanted']:g} a day"
        known = f"{row['sessions_found']} of {row['sessions']}" if row["sessions"] else ""
        rate = "cannot be met" if row["unmet"] else formatting.format_rate(row["alerts_per_day"])
        shown = (f"{row['quorum']}", f"{row['threshold']:.2f}", rate)
        table.add_row(budget, *shown, f"{row['found']} of {row['confirmed']}", known)
    Console().print(table)
    for sentence in dict.fromkeys(row["note"] for row in rows if row["note"]):
        print(printable(sentence))
