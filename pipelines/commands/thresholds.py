"""What events are held to: seen, foreseen on the own history, chosen; `fingerprint threshold`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fingerprint.adapters.system import SystemClock
from fingerprint.analysis import threshold_preview
from fingerprint.analysis.threshold_forecast import DAYS, QUORUMS, Foreseeing
from fingerprint.core.sanitize import visible
from fingerprint.core.settings import Settings
from fingerprint.store.alerts import open_desk
from fingerprint.web import formatting
from pipelines.runtime import operator

WISHES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)  # alerts a day that are foreseen


def show(desk_url: str, settings: Settings) -> dict[str, Any]:
    """What holds, at whose word, and what was chosen before."""
    desk = open_desk(desk_url, create=False)
    held = threshold_preview.applied(settings, desk.tuned())
    chosen = [asdict(each) | {"at": formatting.iso(each.at)} for each in desk.tunings()]
    return {"holds": threshold_preview.said(held, desk.tuned()), "chosen": chosen}


def foresee(
    desk_url: str, folder: Path, settings: Settings, days: float = DAYS, wishes: Sequence[float] = WISHES
) -> list[dict[str, Any]]:
    """What events are held to now; then, for so many alerts a day, the threshold that shows them and what it would have found."""
    found = Foreseeing(open_desk(desk_url, create=False), folder, settings, SystemClock(), days)
    rows = [{"wanted": None, **asdict(found.holds())}]
    for quorum in QUORUMS[::-1]:
        for wish in wishes:
            rows.append({"wanted": wish, **asdict(found.foreseen(found.wanted(wish, quorum), quorum))})
    return rows


def choose(
    desk_url: str, settings: Settings, why: str, threshold: float | None = None, quorum: int | None = None
) -> dict[str, Any]:
    """Hold events to a threshold and a quorum from now on; without both, to what the settings say again."""
    found = Foreseeing(open_desk(desk_url, create=False), None, settings, SystemClock())
    found.choose(threshold, quorum, why, by=operator.at_console())
    return show(desk_url, settings)


# --- for people -------------------------------------------------------------------------------------------------------


def print_shown(figures: dict[str, Any]) -> None:
    holds = figures["holds"]
    whose = f", chosen by {holds['by']} at {holds['at']}" if "by" in holds else ", as the settings say"
    print(visible(f"threshold {holds['threshold']:g}, quorum {holds['quorum']}{whose}"))
    for each in figures["chosen"]:
        print(visible(f"  {each['at']}  {each['by']}: {_chosen(each)} ({each['why']})"))


def print_foreseen(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("wanted", "votes", "threshold", "alerts a day", "confirmed attacks", "known attacks"):
        table.add_column(name, justify="right")
    for row in rows:
        wanted = "now" if row["wanted"] is None else f"{row['wanted']:g} a day"
        known = "" if row["known"] is None else f"{row['known']:.0%}"
        shown = (f"{row['quorum']} of 2", f"{row['threshold']:.2f}", f"{row['alerts_per_day']:g}")
        table.add_row(wanted, *shown, f"{row['found']} of {row['confirmed']}", known)
    Console().print(table)


def _chosen(each: dict[str, Any]) -> str:
    parts = ((name, each[name]) for name in ("threshold", "quorum"))
    return (
        ", ".join(f"{name} {value:g}" for name, value in parts if value is not None) or "as the settings say"
    )
