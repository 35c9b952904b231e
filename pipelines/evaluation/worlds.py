"""`fingerprint evaluate --worlds N`: the evaluation in N drawn worlds, their mean, and the worst of them.

Example:
    $ fingerprint evaluate --worlds 12 --principals 200 --keep build/organisations
    $ fingerprint evaluate --worlds 12 --principals 200 --final         # once, when nothing is tuned any more

The seed of a world draws its parameters from the ranges of `simulation.world_parameters`; development and final worlds have
different seeds. A detector that wins in one world because it is tuned to its habits loses in another. So the worst world counts,
too, not the mean alone.

Worlds are evaluated in parallel, each in a process of its own, as many at a time as cores and memory allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.evaluation import peers
from fingerprint.evaluation.metrics import ALERT_BUDGETS, Figures
from fingerprint.evaluation.vote_rates import vote_shares
from fingerprint.simulation.world_parameters import WorldParameters
from pipelines.cli.console import Progress, no_progress
from pipelines.evaluation.evaluate import (
    EvaluationOptions,
    OrganisationResult,
    evaluate_seed,
    pool_results,
)
from pipelines.evaluation.organisations import DEFAULT_ORGANISATION, Organisation, world_seeds
from pipelines.evaluation.report import CONSOLE_WIDTH, time_to_alert_table
from pipelines.evaluation.side_by_side import run_tasks, workers_for
from pipelines.evaluation.standing_table import (
    EMPTY_CELL,
    TABLE_ROLES,
    figures_table,
    most_found,
    standing_tables,
)
from pipelines.runtime import host

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
COUNTED_STATISTICS = {"events", "new in an hour", "p99", "variance / mean", "days"}  # all others are shares
SHARED_HEADING = "attackers' own calls"
MOST_WORLDS_SHOWN = 12  # columns of a table; for more worlds only the mean and the worst are shown


def refuse_beside(option: str, given: Mapping[str, object]) -> None:
    """Raise FingerprintError if a `given` option is set together with `option`, which simulates its own organisations."""
    if others := [name for name, value in given.items() if value]:
        raise FingerprintError(f"{option} simulates its own organisations: leave {', '.join(others)} out")


def evaluate_worlds(
    settings: Settings,
    progress: Progress,
    count: int,
    final: bool = False,
    organisation: Organisation = DEFAULT_ORGANISATION,
    options: EvaluationOptions = DEFAULT_OPTIONS,
    workers: int | None = None,
) -> Figures:
    """Return the figures of `evaluate --worlds --json`: those of `run_evaluation`, and two more.

    - `worlds`: for each world its seed, its parameters, its statistics and the figures of every method
    - `summary`: for every method the mean over the worlds, and its worst world

    `workers` worlds run at a time, by default `workers_for`. Raises FingerprintError for an impossible number of worlds.
    """
    started, seeds = time.monotonic(), world_seeds(count, final)
    principals, drawn = organisation.principals, [WorldParameters.draw(seed) for seed in seeds]
    chosen = replace(options.resolve_for(principals), statistics=True)  # the same methods in every world
    tasks = [
        WorldTask(seed, world, organisation.in_world(world), settings, chosen)
        for seed, world in zip(seeds, drawn, strict=True)
    ]
    ran = run_tasks(tasks, workers or workers_for(count, principals), progress, "worlds")
    worlds = [_describe_world(world, each) for world, each in zip(drawn, ran, strict=True)]
    return {
        **pool_results([each.result for each in ran]),
        "worlds": worlds,
        "summary": summarise_worlds(worlds),
        "final": final,
        "left_out": sorted(peers.UNAVAILABLE_PEERS.values()),
        "seconds": round(time.monotonic() - started, 1),
        "peak_memory_bytes": max(host.peak_bytes(), *(each.peak_bytes for each in ran)),
    }


# --- side by side -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WorldTask:
    """One world to evaluate in a process of its own."""

    seed: int
    parameters: WorldParameters
    organisation: Organisation
    settings: Settings
    options: EvaluationOptions

    def run(self, progress: Progress = no_progress) -> EvaluatedWorld:
        """Simulate the world, unless its records are kept from before, and evaluate it."""
        started = time.monotonic()
        result = evaluate_seed(
            self.seed, self.organisation, self.settings, progress, self.options, self.parameters
        )
        return EvaluatedWorld(result, round(time.monotonic() - started, 1), host.peak_bytes())


class EvaluatedWorld(NamedTuple):
    """The evaluation of one world, its duration, and the peak memory of its process."""

    result: OrganisationResult
    seconds: float
    peak_bytes: int


# --- summary ------------------------------------------------------------------------------------------------


def _describe_world(parameters: WorldParameters, evaluated: EvaluatedWorld) -> Figures:
    run = evaluated.result
    names = (
        "role",
        "sessions",
        "found",
        "recall",
        "recall_at",
        "found_at",
        "found_at_equal_alerts",
        "queue",
        "alerts_per_day",
        "false_alerts_per_day",
        "alerts_read",
    )
    return {
        "seed": run.about["seed"],
        "seconds": evaluated.seconds,
        "peak_memory_bytes": evaluated.peak_bytes,
        "vote_rates": vote_shares(run.vote_counts),
        "vote_effects": run.vote_effects,
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
    """Return for every method the mean share of sessions found at each budget, its worst world, and its false alerts.

    `ahead` is, for each budget, the number of worlds in which the served quorum (the first method) finds at least as many
    sessions as this method.
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
    """Print statistics of the worlds, found sessions and false alerts of each method, standing tables, and times to alert."""
    console = Console()
    console = console if console.is_terminal else Console(width=CONSOLE_WIDTH)
    worlds = figures["worlds"]
    tables = [_statistics_table(worlds)]
    tables += [_found_table(worlds, budget) for budget in map(str, ALERT_BUDGETS)]
    tables += [_false_alerts_table(worlds), *standing_tables(figures)]
    tables += [time_to_alert_table(figures["time_to_alert"])] if figures["time_to_alert"] else []
    for table in tables:
        caption, table.caption = table.caption, None
        console.print(table)
        if caption:
            console.print(caption, style="dim", highlight=False)
        console.print()
    kind = "Final worlds: look at them once." if figures["final"] else "Development worlds."
    most = max(world["peak_memory_bytes"] for world in worlds)
    seconds = sum(world["seconds"] for world in worlds) / len(worlds)
    console.print(
        f"{kind} All worlds are of one simulator: what holds here alone is a claim about simulation.\n"
        f"A world took {seconds:,.0f} seconds and at most {most / 2**30:.1f} GiB; all of them {figures['seconds']:,.0f} seconds.",
        style="dim",
        highlight=False,
    )
    for sentence in figures["left_out"]:
        console.print(sentence, style="dim", highlight=False)


def _found_table(worlds: Sequence[Figures], budget: str) -> Table:
    def found(method: Figures) -> float:
        return float(method["recall_at"][budget])

    table = _methods_table(f"Found, {budget} alerts a day", worlds, found, min, "{:.0%}".format)
    most = [most_found(next(iter(world["methods"].values())), budget) for world in worlds]
    table.add_row("at most", *_cells(most, min, "{:.0%}".format))
    return table


def _false_alerts_table(worlds: Sequence[Figures]) -> Table:
    def rate(method: Figures) -> float:
        return float(method[FALSE_ALERTS])

    table = _methods_table("False alerts a day", worlds, rate, max, "{:.1f}".format)
    table.caption = "Per 100 principals, at each method's threshold."
    return table


def _statistics_table(worlds: Sequence[Figures]) -> Table:
    """Return a table with a row for each statistic and a column for each of the first MOST_WORLDS_SHOWN worlds."""
    shown = worlds[:MOST_WORLDS_SHOWN]
    table = figures_table("Statistics", *(str(world["seed"]) for world in shown))
    table.caption = (
        "People's hours, harmless events of the judged days (docs/explanation/simulation.md); attackers' own calls: of\n"
        "thieves, to actions that no one else calls; victim's tool: thieves that use one, to the version."
    )
    for heading, name in SHOWN_STATISTICS.items():
        values = [world["statistics"][name] for world in shown]
        if heading == SHARED_HEADING:
            values = [_mean_of_strengths(each) for each in values]
        table.add_row(heading, *(_statistic_text(heading, value) for value in values))
    return table


def _mean_of_strengths(by_strength: dict[str, float]) -> float | None:
    shares = [share for name, share in by_strength.items() if name in ("smash", "session", "quiet")]
    return sum(shares) / len(shares) if shares else None


def _statistic_text(heading: str, value: float | None) -> str:
    if value is None:
        return EMPTY_CELL
    if heading == "events":
        return f"{value / 1000:,.0f} k"
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
    """Return a table with a row for each method: the mean, its worst world, and a column for each world."""
    shown = worlds if len(worlds) <= MOST_WORLDS_SHOWN else []
    table = figures_table(title, "mean", "worst", *(str(world["seed"]) for world in shown))
    roles = {name: method["role"] for name, method in worlds[0]["methods"].items()}
    for role in TABLE_ROLES:
        names = [name for name, its in roles.items() if its == role]
        for name in names:
            values = [figure(world["methods"][name]) for world in worlds]
            table.add_row(name, *_cells(values, worst, text), end_section=name == names[-1])
    return table


def _cells(
    values: Sequence[float], worst: Callable[[Sequence[float]], float], text: Callable[[float], str]
) -> Iterator[str]:
    """Return the mean of the values of all worlds, the worst, and each value unless there are too many worlds to show."""
    each = values if len(values) <= MOST_WORLDS_SHOWN else []
    return map(text, (sum(values) / len(values), worst(values), *each))
