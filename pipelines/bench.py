"""Speed and memory as ratios in one run: `make bench` prints the table and writes build/bench.json.

A row is a function with `@row`; it returns (value, ratio), both measured in this run, the ratio against
what `against` names. Rows without an aim are there to be watched. docs/performance.md says how to read them.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from fingerprint.bank import Bank
from fingerprint.settings import Settings

Measure = Callable[[], tuple[float, float]]
OUT = Path("build/bench.json")
DATA = Path(__file__).parent.parent / "data" / "real"


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    unit: str
    against: str
    aim: float | None
    measure: Measure
    at_most: bool = False  # the aim is a ceiling


ROWS: list[Row] = []


def row(
    name: str, unit: str, against: str, aim: float | None, at_most: bool = False
) -> Callable[[Measure], Measure]:
    """Registers a measurement; `aim` is the least ratio that meets it, or the greatest if `at_most`."""

    def register(measure: Measure) -> Measure:
        ROWS.append(Row(name, unit, against, aim, measure, at_most))
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


@row(
    "bytes to events, one core (split_lines and flatten)",
    "records/s",
    "json.loads and pandas.json_normalize",
    aim=20,
)
def reading() -> tuple[float, float]:
    """Bytes of JSON lines to the table of events, and to a table by the obvious way; the same real
    records."""
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


@row("spectral forecasts, 1,000 series x 1,440 intervals", "series/s", "the same, one series at a time", 10)
def forecasts() -> tuple[float, float]:
    """Counts of a daily rhythm; NumPy's transforms, quantile and median on each series by itself."""
    from fingerprint import spectral

    random = np.random.default_rng(0)
    rhythm = np.clip(np.sin(np.arange(1440) * 2 * np.pi / 24), 0, None)
    series = random.poisson(random.gamma(1, 3, (1000, 1)) * rhythm).astype(np.float32)
    ours, plain = side_by_side(
        lambda: spectral.forecast(series, 24, 0.9), lambda: [_plain_forecast(each) for each in series]
    )
    return len(series) / ours, plain / ours


def _plain_forecast(series: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    spectrum = np.fft.rfft(series)
    power = np.abs(spectrum) ** 2
    spectrum[1:][power[1:] < np.quantile(power[1:], 0.9)] = 0
    kept = np.maximum(np.fft.irfft(spectrum, n=len(series)), 0)
    return kept[:24], float(1.4826 * np.median(np.abs(series - kept)))


@contextmanager
def _organisation(principals: int, days: int) -> Iterator[list[str]]:
    """A simulated organisation's files, oldest day first, for as long as the block runs."""
    from pipelines.simulate import simulate

    with tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as folder:
        simulate(principals, days, 0, Path(folder), 4)
        yield sorted(str(file) for file in Path(folder).glob("*.jsonl.gz"))


@dataclass(frozen=True)
class Learned:
    """A bank, what its training took, and the events of the days that follow it."""

    settings: Settings
    bank: Bank
    core_seconds: float
    events: list[pd.DataFrame]


@cache
def _learned() -> Learned:
    """Ten days of 50 principals learned, four to be scored."""
    from fingerprint import training

    settings = Settings()
    with _organisation(50, 14) as days:
        history, following = _events(days[:10], settings), _events(days[10:], settings)
    start = time.process_time()
    bank = training.train(history, settings)
    return Learned(settings, bank, time.process_time() - start, following)


def _events(files: list[str], settings: Settings) -> list[pd.DataFrame]:
    from fingerprint.edges.files import read
    from fingerprint.edges.history import History

    with History(settings) as history:
        for records in read(files, settings.reading):
            history.add(records)
        return list(history.chunks())


@row("training, core seconds of it all", "models/core-minute", "itself", None)
def training_pace() -> tuple[float, float]:
    """Fingerprints that became ready in a minute of one core, events in memory to bank."""
    learned = _learned()
    return int(learned.bank.fingerprints["ready"].sum()) / learned.core_seconds * 60, 1.0


@row("scoring, prepared events to verdicts", "events/s", "the same detectors, event by event", None)
def scoring() -> tuple[float, float]:
    """Full batches through `Scorer.take` and `settle`; and the first 200 events one at a time."""
    events = _learned().events
    single = [events[0].iloc[[row]].reset_index(drop=True) for row in range(200)]
    batched, one_by_one = side_by_side(lambda: _judge(events), lambda: _judge(single), times=3)
    pace = sum(map(len, events)) / batched
    return pace, pace / (len(single) / one_by_one)


def _judge(batches: list[pd.DataFrame]) -> None:
    from fingerprint.ledger import Ledger
    from fingerprint.scoring import Scorer

    learned = _learned()
    scorer = Scorer(learned.bank, Ledger.from_arrays(learned.settings, learned.bank.ledger), learned.settings)
    for events in batches:
        scorer.take(events)
        scorer.ledger.see(events["event_time"].astype("int64").to_numpy(np.int64) // 1_000_000)
        scorer.settle()
        scorer.ledger.advance()
    scorer.settle(everything=True)


@cache
def _million() -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures of `score --json` on the first quarter of a million records, and on all; one process each."""
    from fingerprint import bank

    with _organisation(120, 45) as days, tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as folder:
        bank.publish(_learned().bank, Path(folder) / "bank")
        quarter, whole = (_score(files, Path(folder)) for files in (days[: len(days) // 4], days))
    return quarter, whole


def _score(files: list[str], folder: Path) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "pipelines.cli",
        "score",
        *files,
        "--json",
        "--bank",
        str(folder / "bank"),
    ]
    desk = f"sqlite:///{folder}/{len(files)}.sqlite"
    done = subprocess.run([*command, "--desk", desk], capture_output=True, check=True, text=True)  # noqa: S603
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


@row("score, files to desk, a million records", "records/s", "bytes to events alone", None)
def road() -> tuple[float, float]:
    """The whole program, start included, 120 principals that the bank does not know."""
    _, whole = _million()
    pace = whole["records"] / whole["seconds"]
    return pace, pace / reading()[0]


@row("score, peak memory of a million records", "MiB", "the peak of their first quarter", 1.2, at_most=True)
def memory() -> tuple[float, float]:
    """Resident, of the whole process."""
    quarter, whole = _million()
    return whole["peak_memory_bytes"] / 2**20, whole["peak_memory_bytes"] / quarter["peak_memory_bytes"]


def main() -> None:
    console = Console()
    results = []
    for each in ROWS:
        with console.status(each.name):
            value, ratio = each.measure()
        result = {key: item for key, item in asdict(each).items() if key != "measure"}
        results.append(result | {"value": value, "ratio": ratio, "met": _met(each, ratio)})
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(results, indent=1) + "\n")
    console.print(_table(results))


def _met(each: Row, ratio: float) -> bool | None:
    if each.aim is None:
        return None
    return ratio <= each.aim if each.at_most else ratio >= each.aim


def _table(results: list[dict[str, Any]]) -> Table:
    table = Table("what", "value", "against", "ratio", "aim", "met", title=f"written to {OUT}")
    for result in results:
        value = f"{result['value']:,.0f} {result['unit']}"
        met = {True: "yes", False: "no", None: ""}[result["met"]]
        bound = "at most " if result["at_most"] else ""
        aim = "" if result["aim"] is None else f"{bound}{result['aim']:g}"
        table.add_row(result["name"], value, result["against"], f"{result['ratio']:.2f}", aim, met)
    return table


if __name__ == "__main__":
    main()
