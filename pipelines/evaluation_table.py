"""The figures of `evaluate` as tables on the screen."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from fingerprint.evaluation.metrics import BUDGETS

STRENGTHS = ("smash", "session", "quiet", "mimic")  # loudest first
WIDTH = 110  # columns where the output is no terminal


def print_figures(figures: dict[str, Any]) -> None:
    """Print what was judged, how each method did at its threshold, and what it finds at some alerts a day."""
    console = Console()
    console = console if console.is_terminal else Console(width=WIDTH)
    for about in figures["organisations"]:
        console.print(_sentence(about), highlight=False)
    console.print(_at_threshold(figures["methods"]))
    console.print(_at_budgets(figures["methods"]))


def _sentence(about: dict[str, Any]) -> str:
    seed = f"Seed {about['seed']}: " if "seed" in about else ""
    learned = (
        f" ({about['attack_events_learned']} attack events in what was learned)"
        if about["attack_events_learned"]
        else ""
    )
    return (
        f"{seed}{about['events']:,} events of {about['principals']} principals; "
        f"{_days(about['days_learned'])} learned{learned}, {_days(about['days_judged'])} judged, in them "
        f"{about['attack_sessions']} attack sessions with {about['attack_events']:,} of "
        f"{about['events_judged']:,} events."
    )


def _at_threshold(methods: list[dict[str, Any]]) -> Table:
    heads = ("P ev", "R ev", "F1 ev", "AP ev", "P ses", "R ses", "F1 ses", "alerts", "false", "median")
    table = _table("At each method's threshold", *heads)
    table.caption = (
        "ev: per event, ses: per attack session; P precision, R recall, AP average precision;\n"
        "alerts and false alerts a day; median time from a found session's first event to its alert's."
    )
    for method in methods:
        event, session = method["per_event"], method["per_session"]
        table.add_row(
            method["name"],
            *(f"{event[name]:.2f}" for name in ("precision", "recall", "f1", "average_precision")),
            *(f"{session[name]:.2f}" for name in ("precision", "recall", "f1")),
            f"{method['alerts_per_day']:.1f}",
            f"{method['false_alerts_per_day']:.1f}",
            _time(method["median_seconds_to_detect"]),
        )
    return table


def _at_budgets(methods: list[dict[str, Any]]) -> Table:
    sessions = {name: part["sessions"] for name, part in methods[0]["by_strength"].items()}
    strengths = sorted(sessions, key=lambda name: (STRENGTHS.index(name) if name in STRENGTHS else 9, name))
    heads = [f"{name} ({sessions[name]})" for name in strengths]
    table = _table("Sessions found, alerts a day:", *(str(budget) for budget in BUDGETS), *heads)
    table.caption = "By strength: at 20 alerts a day; how many sessions there are in brackets."
    for method in methods:
        table.add_row(
            method["name"],
            *(f"{method['recall_at'][str(budget)]:.0%}" for budget in BUDGETS),
            *(f"{method['by_strength'][name]['recall_at']['20']:.0%}" for name in strengths),
        )
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _days(days: float) -> str:
    return f"{days:.0f} days" if days >= 2 else f"{days * 24:.1f} hours"
