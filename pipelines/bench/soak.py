"""Benches that take long: `make bench-long`.

    python -m pipelines.bench.soak --only "a week"       # one of PARTS

a week       memory of a stream over a simulated week at a constant rate
a million    a million records through `fingerprint stream` on a real broker, one a message and in columns of `ingest`
training     a hundred thousand entities trained; a million where there is a CUDA device (`training`)

Memory is judged by its slope, not by two values. Records of a simulated organisation get other times, so that each hour has the
same number. The bank learns as many days as series look back. Then the stream runs for as many days as ids of records are kept,
so that all state has its full size when the week begins. At the end of each hour of that week the resident memory of the process
is noted. The slope is flat if its interval of 95 % contains 0. The bank is trained in another process, because memory that
training leaves free in a process would hide growth.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

from pipelines.bench import training as bench_training
from pipelines.bench.broker import BenchmarkStream, process_figures, running_broker, scored_events
from pipelines.bench.in_memory import MemoryStream
from pipelines.bench.organisations import organisation_files, publish_bank
from pipelines.bench.report import Skipped, merge_result

RESULTS_FILE = Path("build/bench-long.json")
WEEK_PRINCIPALS = 60  # about 500 records an hour
WEEK_LEARNED_DAYS, WARM_UP_DAYS, MEASURED_DAYS = 21, 14, 7
CONFIDENCE = 0.95
MILLION_PRINCIPALS, MILLION_SCALE, MILLION_LEARNED_DAYS, MILLION_DAYS = 100, 10.0, 3, 7
HOURS = 24
_EVENT_TIME = re.compile(rb'("eventTime":\s*)"[^"]*"')


# --- memory of a week -----------------------------------------------------------------------------------------------------


class Slope(NamedTuple):
    """Growth for each day, with its interval of 95 %."""

    value: float
    low: float
    high: float

    @property
    def is_flat(self) -> bool:
        """Return whether the interval contains 0."""
        return self.low <= 0 <= self.high


def slope_a_day(hourly: Sequence[float]) -> Slope:
    """Return the growth for each day of values of successive hours, by least squares.

    Example:
        >>> slope_a_day([100.0, 101.0, 100.0, 101.0, 100.0]).is_flat
        True
    """
    line = stats.linregress(np.arange(len(hourly)) / HOURS, hourly)
    width = stats.t.ppf((1 + CONFIDENCE) / 2, len(hourly) - 2) * line.stderr
    return Slope(float(line.slope), float(line.slope - width), float(line.slope + width))


def constant_hours(files: Sequence[str], folder: Path) -> list[Path]:
    """Write the records of days in their order, with the same number in each hour; return one file for each hour."""
    lines = [line for file in files for line in gzip.decompress(Path(file).read_bytes()).splitlines()]
    first = datetime.fromisoformat(Path(files[0]).name[:10]).replace(tzinfo=UTC)
    count = len(lines) // (len(files) * HOURS)
    hours = []
    for number in range(len(files) * HOURS):
        start = first + timedelta(hours=number)
        some = lines[number * count : (number + 1) * count]
        file = folder / f"{start:%Y-%m-%dT%H}.jsonl"
        file.write_bytes(b"\n".join(_at_times(some, start)))
        hours.append(file)
    return hours


def _at_times(lines: Sequence[bytes], start: datetime) -> Iterator[bytes]:
    """Yield records with times that are spread evenly over the hour that begins at `start`."""
    for place, line in enumerate(lines):
        at = start + timedelta(seconds=3600 * place // len(lines))
        yield _EVENT_TIME.sub(rb'\1"%s"' % f"{at:%Y-%m-%dT%H:%M:%SZ}".encode(), line, count=1)


def measure_week() -> dict[str, Any]:
    """Stream the days after those that a bank learned, an hour at a time; return the slope of the memory."""
    with tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as name:
        folder = Path(name)
        days = WEEK_LEARNED_DAYS + WARM_UP_DAYS + MEASURED_DAYS
        command = [sys.executable, "-m", "pipelines.bench.soak", "--prepare", name, "--days", str(days)]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603
        hours = sorted(folder.glob("*.jsonl"))
        memory = list(_hourly_memory(folder, hours[WEEK_LEARNED_DAYS * HOURS :]))
    slope = slope_a_day(memory[WARM_UP_DAYS * HOURS :])
    return {
        "MiB_a_day": round(slope.value, 3),
        "interval": [round(slope.low, 3), round(slope.high, 3)],
        "met": slope.is_flat,
        "MiB_at_the_end": round(memory[-1], 1),
        "MiB_by_hour": [round(each, 2) for each in memory],
    }


def prepare_week(folder: Path, days: int) -> None:
    """Write the hours of the week and of the days before it, and a bank that learned the first of these days."""
    with organisation_files(WEEK_PRINCIPALS, days, attacks=0) as files:
        hours = constant_hours(files[:days], folder)
    publish_bank([str(file) for file in hours[: WEEK_LEARNED_DAYS * HOURS]], folder / "bank")


def _hourly_memory(folder: Path, hours: Sequence[Path]) -> Iterator[float]:
    """Yield the MiB that are resident when an hour has been scored and committed."""
    with MemoryStream.opened(folder) as stream:
        for hour in hours:
            end = datetime.fromisoformat(f"{hour.stem}:00+00:00") + timedelta(hours=1)
            stream.process(hour.read_bytes().splitlines(), end)
            yield _resident_bytes() / 2**20


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --- a million records ----------------------------------------------------------------------------------------------------


def measure_million() -> dict[str, Any]:
    """Score the days after those that a bank learned with one scorer: first one record a message, then in columns of `ingest`.

    All figures include the start of their program. Raises Skipped without a broker.
    """
    days = MILLION_LEARNED_DAYS + MILLION_DAYS
    with (
        tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as name,
        running_broker(Path(name) / "broker") as address,
        organisation_files(MILLION_PRINCIPALS, days, scale=MILLION_SCALE) as files,
    ):
        folder, sent = Path(name), files[MILLION_LEARNED_DAYS:]
        publish_bank(files[:MILLION_LEARNED_DAYS], folder / "bank")
        records = BenchmarkStream(address, "million", folder / "bank", folder).create()
        process_figures(records.send(sent))
        one_by_one = process_figures(records.score("--once", client="confluent", group="million"))
        # One raw partition: with several, the one whose event time ends first would hold back the last events.
        columns = BenchmarkStream(address, "columns", folder / "bank", folder, raw_partitions=1).create()
        ingested = columns.send_ingested(sent)
        together = process_figures(columns.score("--once", client="confluent", group="columns"))
    return {
        "records": ingested["records"],
        **_pace("one a message", one_by_one),
        "ingested a core second": round(ingested["records"] / ingested["cpu_seconds"]),
        **_pace("in columns", together),
        "figures": {"one a message": one_by_one, "ingest": ingested, "in columns": together},
    }


def _pace(name: str, done: dict[str, Any]) -> dict[str, int]:
    """Return events a second and a core second of a scorer, repeats counted, and its peak memory."""
    events = scored_events(done)
    return {
        f"{name}, a second": round(events / done["seconds"]),
        f"{name}, a core second": round(events / done["cpu_seconds"]),
        f"{name}, peak MiB": done["peak_memory_bytes"] >> 20,
    }


# --- the program ------------------------------------------------------------------------------------------------------------


def measure_training() -> dict[str, Any]:
    """Train a hundred thousand entities, and a million where there is a device."""
    bench_training.run_report(bench_training.ENTITIES, bench_training.PROCESSES, "cpu")
    bench_training.run_report(bench_training.MILLION, 1, "cuda")
    return {"written_to": str(bench_training.RESULTS_FILE)}


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "a week": measure_week,
    "a million": measure_million,
    "training": measure_training,
}


def main(argv: list[str] | None = None) -> None:
    """Measure all parts, or one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=PARTS, help="one of the parts")
    parser.add_argument("--prepare", help=argparse.SUPPRESS)  # the folder of a week, in a process of its own
    parser.add_argument("--days", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.prepare:
        prepare_week(Path(arguments.prepare), arguments.days)
        return
    for name in [arguments.only] if arguments.only else PARTS:
        result = _measured(PARTS[name])
        merge_result(RESULTS_FILE, name, result)
        Console().print(_table(name, result))


def _measured(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return measure()
    except Skipped as reason:
        return {"skipped": str(reason)}


def _table(name: str, result: dict[str, Any]) -> Table:
    table = Table("what", "value", title=f"{name}: written to {RESULTS_FILE}")
    for what, value in result.items():
        if what not in ("figures", "MiB_by_hour"):
            table.add_row(what.replace("_", " "), str(value))
    return table


if __name__ == "__main__":
    main()
