"""`fingerprint evaluate --worlds N`: the evaluation in N drawn worlds, their mean, and the worst of them.

Example:
    $ fingerprint evaluate --worlds 12 --principals 200 --keep build/organisations
    $ fingerprint evaluate --worlds 12 --principals 200 --final         # once, when nothing is tuned any more

A world is drawn from the ranges of `simulation.world_parameters` by its seed; development and final worlds have different ones. A
detector that wins in one world by knowing its habits loses in another, so what counts is the worst world beside the mean.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.evaluation import peers
from fingerprint.evaluation.metrics import ALERT_BUDGETS
from fingerprint.simulation.world_parameters import WorldParameters
from pipelines.cli.console import Progress
from pipelines.evaluation.evaluate import (
    EvaluationOptions,
    OrganisationResult,
    evaluate_seed,
    pool_results,
)
from pipelines.evaluation.organisations import attacks_for, world_days, world_seeds
from pipelines.evaluation.report import CONSOLE_WIDTH, EMPTY_CELL
from pipelines.runtime import host

Figures = dict[str, Any]

DEFAULT_OPTIONS = EvaluationOptions()
FALSE_ALERTS = "false_alerts_per_day_per_100_principals"
SHOWN_STATISTICS = {  # heading -> statistic
    "events": "events",
    "hours with new action": "person_hours_with_new_action",
    "new in an hour": "new_actions_in_an_hour",
    "p99": "new_actions_in_an_hour_p99",
    "in bunches": "bunched_novelties",
    "variance / mean": "person_hour_dispersion",
    "new transitions": "new_transitions",
    "hours from new /16": "person_hours_from_new_network",
    "attackers' own calls": "attack_calls_no_one_else_makes",
    "victim's tool": "thieves_with_the_victims_tool",
    "people": "people_share",
    "days": "history_days",
}
COUNTED_STATISTICS = {"events", "new in an hour", "p99", "variance / mean", "days"}  # the others are shares
SHARED_HEADING = "attackers' own calls"
LONG_WORD = re.compile(r"[A-Za-z]{9,}")


def refuse_with_worlds(given: Mapping[str, object]) -> None:
    """Raise FingerprintError if anything is given that has no meaning beside --worlds."""
    if others := [name for name, value in given.items() if value]:
        raise FingerprintError(f"--worlds draws its own organisations: leave {', '.join(others)} out")


def evaluate_worlds(
    settings: Settings,
    progress: Progress,
    count: int,
    final: bool = False,
    principals: int = 50,
    days: int = 28,
    attacks: int | None = None,
    keep: Path | None = None,
    options: EvaluationOptions = DEFAULT_OPTIONS,
) -> Figures:
    """Return the figures of `evaluate --worlds --json`: those of `run_evaluation`, and `worlds` and `summary`.

    `worlds` has for each its seed, its parameters, its statistics and what every method finds; `summary` the mean of every
    method over the worlds, and its worst world. Raises FingerprintError for an impossible number of worlds.
    """
    started, seeds = time.monotonic(), world_seeds(count, final)
    chosen = replace(options.resolve_for(principals), statistics=True)  # the same methods in every world
    sessions, drawn = attacks or attacks_for(principals), [WorldParameters.draw(seed) for seed in seeds]
    runs = []
    for number, (seed, world) in enumerate(zip(seeds, drawn, strict=True), 1):
        progress("worlds", number, count)
        length = world_days(days, world)
        runs.append(
            evaluate_seed(seed, principals, length, sessions, keep, settings, progress, chosen, world)
        )
    worlds = [_describe_world(world, run) for world, run in zip(drawn, runs, strict=True)]
    return {
        **pool_results(runs),
        "worlds": worlds,
        "summary": summarise_worlds(worlds),
        "final": final,
        "left_out": sorted(peers.UNAVAILABLE_PEERS.values()),
        "seconds": round(time.monotonic() - started, 1),
        "peak_memory_bytes": host.peak_bytes(),
    }


def _describe_world(parameters: WorldParameters, run: OrganisationResult) -> Figures:
    names = ("sessions", "found", "recall", "recall_at", "found_at", "alerts_per_day", "false_alerts_per_day")
    return {
        "seed": run.about["seed"],
        "parameters": asdict(parameters),
        "principals": run.about["principals"],
        "statistics": {"events": run.about["events"], **run.about["statistics"]},
        "methods": {
            method["name"]: {
                **{name: method[name] for name in (*names, FALSE_ALERTS)},
                "by_strength": {
                    strength: {name: part[name] for name in ("sessions", "found", "recall_at")}
                    for strength, part in method["by_strength"].items()
                },
            }
            for method in run.methods
        },
    }


def summarise_worlds(worlds: Sequence[Figures]) -> dict[str, Figures]:
    """Return for every method the mean share of sessions at each budget, its worst world, and its false alerts.

    `ahead` says at each budget in how many worlds the served quorum, the first method, finds at least as many as this one.
    """
    served = next(iter(worlds[0]["methods"]))
    out = {}
    for name in worlds[0]["methods"]:
        figures: Figures = {"mean": {}, "worst": {}, "worst_world": {}, "ahead": {}}
        for budget in map(str, ALERT_BUDGETS):
            shares = {world["seed"]: world["methods"][name]["recall_at"][budget] for world in worlds}
            figures["worst_world"][budget] = min(shares, key=lambda seed: shares[seed])
            figures["worst"][budget] = min(shares.values())
            figures["mean"][budget] = round(sum(shares.values()) / len(shares), 4)
            figures["ahead"][budget] = sum(
                world["methods"][served]["recall_at"][budget] >= shares[world["seed"]] for world in worlds
            )
        false = [world["methods"][name][FALSE_ALERTS] for world in worlds]
        figures |= {"mean_false_alerts": round(sum(false) / len(false), 4), "most_false_alerts": max(false)}
        out[name] = figures
    return out


# --- on the screen ------------------------------------------------------------------------------------------


def print_worlds(figures: Figures) -> None:
    """Print a row a world: its statistics, then what every method finds and alerts falsely; the mean and the worst below."""
    console = Console()
    console = console if console.is_terminal else Console(width=CONSOLE_WIDTH)
    worlds = figures["worlds"]
    console.print(_statistics_table(worlds))
    for budget in map(str, ALERT_BUDGETS):
        console.print(_found_table(worlds, budget))
    console.print(_false_alerts_table(worlds))
    kind = "Final worlds: look at them once." if figures["final"] else "Development worlds."
    console.print(f"{kind} All worlds are of one simulator.", style="dim", highlight=False)
    for sentence in figures["left_out"]:
        console.print(sentence, style="dim", highlight=False)


def _found_table(worlds: Sequence[Figures], budget: str) -> Table:
    def found(method: Figures) -> float:
        return float(method["recall_at"][budget])

    return _methods_table(f"Sessions found, {budget} alerts a day", worlds, found, min, "{:.0%}".format)


def _false_alerts_table(worlds: Sequence[Figures]) -> Table:
    def rate(method: Figures) -> float:
        return float(method[FALSE_ALERTS])

    title = "False alerts a day per 100 principals, at each method's threshold"
    return _methods_table(title, worlds, rate, max, "{:.2f}".format)


def _statistics_table(worlds: Sequence[Figures]) -> Table:
    table = _table("Statistics", list(SHOWN_STATISTICS))
    table.caption = (
        "People's hours, harmless events of the judged days (docs/explanation/simulation.md); attackers' own calls: of\n"
        "thieves, to actions that no one else calls; victim's tool: thieves that use one, to the version."
    )
    for world in worlds:
        values = {heading: world["statistics"][name] for heading, name in SHOWN_STATISTICS.items()}
        values[SHARED_HEADING] = _mean_of_strengths(values[SHARED_HEADING])
        table.add_row(str(world["seed"]), *(_statistic_text(*item) for item in values.items()))
    return table


def _mean_of_strengths(by_strength: dict[str, float]) -> float | None:
    shares = [share for name, share in by_strength.items() if name in ("smash", "session", "quiet")]
    return sum(shares) / len(shares) if shares else None


def _statistic_text(heading: str, value: float | None) -> str:
    if value is None:
        return EMPTY_CELL
    if heading == "new in an hour":
        return f"{value:.1f}"
    return f"{value:,.0f}" if heading in COUNTED_STATISTICS else f"{value:.0%}"


def _methods_table(
    title: str,
    worlds: Sequence[Figures],
    figure: Callable[[Figures], float],
    worst: Callable[[Sequence[float]], float],
    text: Callable[[float], str],
) -> Table:
    """Return a table with a row a world and a column a method; below, the mean and each method's worst world."""
    names = list(worlds[0]["methods"])
    table = _table(title, names)
    columns = [[figure(world["methods"][name]) for world in worlds] for name in names]
    for world, values in zip(worlds, zip(*columns, strict=True), strict=True):
        table.add_row(str(world["seed"]), *map(text, values), end_section=world is worlds[-1])
    table.add_row("mean", *(text(sum(values) / len(values)) for values in columns))
    table.add_row("worst", *(text(worst(values)) for values in columns))
    return table


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0, caption_justify="left")
    table.add_column("World", no_wrap=True)
    for heading in headings:
        table.add_column(LONG_WORD.sub(_hyphenate, heading), justify="right")
    return table


def _hyphenate(word: re.Match[str]) -> str:
    """Return a long word of a heading on two lines: a column is as wide as its longest."""
    half = (len(word[0]) + 1) // 2
    return f"{word[0][:half]}-\n{word[0][half:]}"
