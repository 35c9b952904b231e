"""Rows of the bench, and the table they make.

Example:
    >>> @benchmark("sorting a million numbers", "numbers/s", "the same in Python", aim=10)
    ... def sorting_pace() -> tuple[float, float]:
    ...     return pace, pace / plain_pace

The function returns (value, ratio), both measured in this run; the ratio compares the value with `against`. A row without an aim
is only watched. A row that cannot be measured on this machine raises Skipped with the reason.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Measure = Callable[[], tuple[float, float]]


class Skipped(Exception):
    """Raised if this machine cannot measure a row; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A row: its name, its unit, the other side of its ratio, and the aim of the ratio."""

    name: str
    unit: str
    against: str
    aim: float | None
    measure: Measure
    at_most: bool = False  # the aim is a ceiling


BENCHMARKS: list[Benchmark] = []


def benchmark(
    name: str, unit: str, against: str, aim: float | None, at_most: bool = False
) -> Callable[[Measure], Measure]:
    """Register a measurement; `aim` is the least ratio that meets it, or the greatest if `at_most`."""

    def register(measure: Measure) -> Measure:
        BENCHMARKS.append(Benchmark(name, unit, against, aim, measure, at_most))
        return measure

    return register


def fastest_interleaved(*runs: Callable[[], Any], times: int = 7) -> list[float]:
    """Return the fewest seconds of several runs of each function; the runs take turns, so other work on the machine hits all."""
    fastest = [float("inf")] * len(runs)
    for _ in range(times):
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            fastest[index] = min(fastest[index], time.perf_counter() - start)
    return fastest


def run_benchmarks(out: Path, only: str = "") -> None:
    """Measure the registered rows whose name contains `only`, write them to `out`, and print the table."""
    console = Console()
    results = []
    for each in (each for each in BENCHMARKS if only in each.name):
        with console.status(each.name):
            results.append(_run_benchmark(each))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")
    console.print(_results_table(results, out))


def merge_result(out: Path, name: str, result: Any) -> dict[str, Any]:
    """Write a result to `out` under its name, beside the results of other names; return all results."""
    before = json.loads(out.read_text()) if out.exists() else {}
    every = {**before, name: result}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(every, indent=1) + "\n")
    return every


def _run_benchmark(each: Benchmark) -> dict[str, Any]:
    result = {key: item for key, item in asdict(each).items() if key != "measure"}
    try:
        value, ratio = each.measure()
    except Skipped as reason:
        return result | {"skipped": str(reason)}
    return result | {"value": value, "ratio": ratio, "met": _is_met(each, ratio)}


def _is_met(each: Benchmark, ratio: float) -> bool | None:
    if each.aim is None:
        return None
    return ratio <= each.aim if each.at_most else ratio >= each.aim


def _results_table(results: list[dict[str, Any]], out: Path) -> Table:
    table = Table("what", "value", "against", "ratio", "aim", "met", title=f"written to {out}")
    for result in results:
        bound = "at most " if result["at_most"] else ""
        aim = "" if result["aim"] is None else f"{bound}{result['aim']:g}"
        if "skipped" in result:
            table.add_row(result["name"], f"skipped: {result['skipped']}", result["against"], "", aim, "")
            continue
        digits = 0 if result["value"] >= 10 else 3
        value = f"{result['value']:,.{digits}f} {result['unit']}"
        met = {True: "yes", False: "no", None: ""}[result["met"]]
        table.add_row(result["name"], value, result["against"], f"{result['ratio']:.2f}", aim, met)
    return table
