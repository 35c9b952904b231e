"""The files of a simulated world: a compressed file of records for each day, and labels of attacks and anomalies.

Example:
    >>> summary = SimulationSummary(Path("records"), principals=20)
    >>> write_world(world, LogDelivery(world.organisation), summary)
    >>> summary.records, sorted(file.name for file in Path("records").iterdir())[0]
    (8412, '2026-01-05.jsonl.gz')
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from fingerprint.simulation.log_delivery import LogDelivery
from fingerprint.simulation.world import SimulatedWorld

LINES_PER_CHUNK = 10_000  # lines compressed at a time
ATTACK_LABELS, ANOMALY_LABELS = "labels.jsonl", "labels.surprises.jsonl"


@dataclass
class SimulationSummary:
    """Counters of written data. `records` counts lines, duplicates included; `attacks` counts sessions by strength."""

    folder: Path
    principals: int
    records: int = 0
    repeats: int = 0
    bytes: int = 0  # of JSON, before compression
    attack_events: int = 0
    attacks: dict[str, int] = field(default_factory=dict)


def write_world(
    world: SimulatedWorld,
    delivery: LogDelivery,
    summary: SimulationSummary,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the files of all days to the folder of `summary`, and update the counters of `summary`.

    `progress` is called with (days done, records so far).
    """
    summary.folder.mkdir(parents=True, exist_ok=True)
    _write_anomaly_labels(summary.folder / ANOMALY_LABELS, world)
    with (summary.folder / ATTACK_LABELS).open("w") as labels:
        for number in range(world.organisation.days):
            day = world.simulate_day(number)
            event_ids, lines = delivery.deliver_day(number, day.calls, day.sessions)
            _write_lines(summary.folder / f"{world.organisation.date(number)}.jsonl.gz", lines, summary)
            for label in day.labels(event_ids, delivery.end_of_activity(number)):
                labels.write(json.dumps(label) + "\n")
                summary.attack_events += 1
            if progress:
                progress(number + 1, summary.records)
    summary.repeats = delivery.duplicates


def _write_anomaly_labels(path: Path, world: SimulatedWorld) -> None:
    lines = (json.dumps(anomaly.to_label(world.organisation)) + "\n" for anomaly in world.anomalies)
    path.write_text("".join(lines))


def _write_lines(path: Path, lines: Iterable[str], summary: SimulationSummary) -> None:
    lines = iter(lines)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", compresslevel=3, fileobj=raw, mtime=0) as packed:
        while chunk := list(islice(lines, LINES_PER_CHUNK)):
            text = "".join(chunk).encode()
            packed.write(text)
            summary.records += len(chunk)
            summary.bytes += len(text)
