"""Memory of a stream over a simulated day, then a large training: `make bench-long`.

It prints the memory by the hour and writes build/bench-long.json; then a hundred thousand entities are trained (`training`).

A day of 200 principals who do ten times as much as usual (some 400,000 records) is sent an hour at a time to a topic on a real
broker, as fast as `fingerprint stream` takes it; when an hour is dealt with, the most that was resident in it is noted. Flat
means that the last quarter of the day peaks where the first did.
"""

from __future__ import annotations

import gzip
import json
import re
import signal
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from fingerprint.adapters.system import SystemClock
from fingerprint.core.settings import Settings
from fingerprint.registry import bank
from fingerprint.training import pipeline
from pipelines.bench import training as bench_training
from pipelines.bench.broker import (
    START_TIMEOUT_SECONDS,
    BenchmarkStream,
    free_port,
    process_figures,
    running_broker,
    wait_until_ready,
)
from pipelines.bench.organisations import organisation_files, read_events
from pipelines.bench.report import Skipped

RESULTS_FILE = Path("build/bench-long.json")
TRAINING_DAYS = 3  # days; the next one is streamed
HOURS = 24
MAX_MEMORY_GROWTH = 1.2  # last quarter's peak over the first's, at most
_EVENT_TIME = re.compile(rb'"eventTime":\s*"([^"]*)"')


def main() -> None:
    """Stream a day, then train."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as folder:
        try:
            with running_broker(Path(folder) / "broker") as address, console.status("a day"):
                result = _stream_one_day(address, Path(folder))
        except Skipped as reason:
            result = {"skipped": str(reason)}
    RESULTS_FILE.parent.mkdir(parents=True, exist_ok=True)
    RESULTS_FILE.write_text(json.dumps(result, indent=1) + "\n")
    console.print(_table(result))
    bench_training.run_report(bench_training.ENTITIES, bench_training.PROCESSES, "cpu")
    bench_training.run_report(bench_training.MILLION, 1, "cuda")


def _stream_one_day(address: str, folder: Path) -> dict[str, Any]:
    """Learn the days before, stream one more."""
    settings = Settings()
    with organisation_files(200, TRAINING_DAYS + 1, scale=10) as days:
        hours = _split_by_hour(days[TRAINING_DAYS], folder)
        bank.publish_version(
            pipeline.train(read_events(days[:TRAINING_DAYS], settings), settings), folder / "bank"
        )
    topics = BenchmarkStream(address, "day", folder / "bank", folder).create()
    port = free_port()
    scorer = topics.score(group="day", port=port)
    wait_until_ready(port, scorer)
    started = time.monotonic()
    peaks = list(_hourly_peak_memory(topics, hours, port, scorer.pid))
    seconds = time.monotonic() - started
    scorer.send_signal(signal.SIGTERM)
    done = process_figures(scorer)
    quarter = HOURS // 4
    flat = max(peaks[-quarter:]) / max(peaks[:quarter])
    return {
        "records": done["messages"],
        "seconds": round(seconds, 1),
        "peak_mib_by_hour": peaks,
        "last_quarter_over_first": round(flat, 3),
        "met": flat <= MAX_MEMORY_GROWTH,
        "figures": done,
    }


def _split_by_hour(day: str, folder: Path) -> list[Path]:
    """Write a file for each hour of the day, in the order of delivery: it lasts until a record of the next hour comes."""
    lines = gzip.decompress(Path(day).read_bytes()).splitlines(keepends=True)
    hour = np.maximum.accumulate(
        [_delivery_hour(line) if Path(day).name[:10].encode() in line else 0 for line in lines]
    )
    files = [folder / f"{number:02d}.jsonl" for number in range(HOURS)]
    for number, file in enumerate(files):
        file.write_bytes(b"".join(lines[at] for at in np.flatnonzero(hour == number)))
    return files


def _delivery_hour(line: bytes) -> int:
    found = _EVENT_TIME.search(line)
    return datetime.fromisoformat(found[1].decode()).hour if found else 0


def _hourly_peak_memory(topics: BenchmarkStream, hours: list[Path], port: int, pid: int) -> Iterator[int]:
    """Yield the most MiB resident in each hour."""
    sent = 0
    for file in hours:
        _reset_peak_memory(pid)
        sent += process_figures(topics.send([str(file)]))["records"]
        _wait_until_read(port, sent)
        yield _peak_memory_mib(pid) >> 20


def _wait_until_read(port: int, count: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while _messages_processed(port) < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the scorer has not read {count:,} messages")
        SystemClock().sleep(0.1)


def _messages_processed(port: int) -> float:
    """Return how many messages `fingerprint stream` has dealt with, by its own metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = re.search(r"^fingerprint_stream_messages_total (\S+)", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def _reset_peak_memory(pid: int) -> None:
    """Let the kernel's peak (VmHWM) start again from what is resident now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _peak_memory_mib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) << 10  # type: ignore[index]


def _table(result: dict[str, Any]) -> Table:
    table = Table("hour", "MiB at most", title=f"written to {RESULTS_FILE}")
    if "skipped" in result:
        table.add_row("", f"skipped: {result['skipped']}")
        return table
    for hour, peak in enumerate(result["peak_mib_by_hour"]):
        table.add_row(str(hour), f"{peak:,}")
    table.add_row(
        "last quarter / first", f"{result['last_quarter_over_first']:.2f} (at most {MAX_MEMORY_GROWTH:g})"
    )
    return table


if __name__ == "__main__":
    main()
