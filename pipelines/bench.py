"""Speed and memory as ratios in one run: `make bench` prints the table and writes build/bench.json.

A row is a function with `@row`; it returns (value, ratio), both measured in this run, the ratio against
what `against` names.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Measure = Callable[[], tuple[float, float]]
OUT = Path("build/bench.json")
DATA = Path(__file__).parent.parent / "data" / "real"


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    unit: str
    against: str
    aim: float
    measure: Measure


ROWS: list[Row] = []


def row(name: str, unit: str, against: str, aim: float) -> Callable[[Measure], Measure]:
    """Registers a measurement; `aim` is the least ratio that meets it."""

    def register(measure: Measure) -> Measure:
        ROWS.append(Row(name, unit, against, aim, measure))
        return measure

    return register


def side_by_side(*runs: Callable[[], Any], times: int = 7) -> list[float]:
    """Seconds of the fastest of several runs of each, in turns: the machine's other work hits all alike."""
    fastest = [float("inf")] * len(runs)
    for _ in range(times):
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            fastest[index] = min(fastest[index], time.perf_counter() - start)
    return fastest


@row("records to events, one thread", "records/s", "json.loads and pandas.json_normalize", aim=20)
def reading() -> tuple[float, float]:
    """Bytes of JSON lines to the table of events, and to a table by the obvious way; the same real
    records."""
    import pandas as pd

    from fingerprint.cloudtrail import split_lines
    from fingerprint.flatten import flatten

    lines = gzip.decompress((DATA / "invictus_stratus" / "invictus_stratus.jsonl.gz").read_bytes()).split(
        b"\n"
    )
    lines = [line for line in lines if line]
    many = lines * 7  # a full batch of the default size; the obvious way gains nothing from more
    ours, obvious = side_by_side(
        lambda: flatten(split_lines(many)), lambda: pd.json_normalize([json.loads(line) for line in lines])
    )
    return len(many) / ours, (len(many) / ours) / (len(lines) / obvious)


def main() -> None:
    console = Console()
    results = []
    for each in ROWS:
        with console.status(each.name):
            value, ratio = each.measure()
        result = {key: item for key, item in asdict(each).items() if key != "measure"}
        results.append(result | {"value": value, "ratio": ratio, "met": ratio >= each.aim})
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(results, indent=1) + "\n")
    console.print(_table(results))


def _table(results: list[dict[str, Any]]) -> Table:
    table = Table("what", "value", "against", "ratio", "aim", "met", title=f"written to {OUT}")
    for result in results:
        value = f"{result['value']:,.0f} {result['unit']}"
        met = "yes" if result["met"] else "no"
        table.add_row(
            result["name"], value, result["against"], f"{result['ratio']:.1f}", f"{result['aim']:g}", met
        )
    return table


if __name__ == "__main__":
    main()
