"""A world's files hold what its summary counts, and its labels name events that are in them."""

from __future__ import annotations

import gzip
import json
from datetime import date

import pytest

from fingerprint.simulation.log_delivery import LogDelivery
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.record_files import SimulationSummary, write_world
from fingerprint.simulation.world import SimulatedWorld


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> SimulationSummary:
    """Four days of six principals, one of whom is attacked."""
    organisation = Organisation.create(seed=3, start=date(2026, 1, 5), days=4)
    world = SimulatedWorld.create(organisation, principals=6, attacks=1)
    summary = SimulationSummary(tmp_path_factory.mktemp("world") / "records", principals=6)
    steps: list[tuple[int, int]] = []
    write_world(world, LogDelivery(organisation), summary, lambda *step: steps.append(step))
    assert [done for done, _ in steps] == [1, 2, 3, 4]
    assert steps[-1][1] == summary.records
    return summary


def test_there_is_a_file_for_each_day_and_two_of_labels(summary: SimulationSummary) -> None:
    days = [f"2026-01-{day:02}.jsonl.gz" for day in range(5, 9)]
    names = sorted(file.name for file in summary.folder.iterdir())
    assert names == [*days, "labels.jsonl", "labels.surprises.jsonl"]


def test_the_summary_counts_lines_bytes_and_repeats(summary: SimulationSummary) -> None:
    text = b"".join(gzip.decompress(file.read_bytes()) for file in summary.folder.glob("*.gz"))
    ids = [json.loads(line)["eventID"] for line in text.splitlines()]
    assert (summary.records, summary.bytes) == (len(ids), len(text))
    assert summary.repeats == len(ids) - len(set(ids))


def test_every_label_is_of_a_record(summary: SimulationSummary) -> None:
    labels = [json.loads(line) for line in (summary.folder / "labels.jsonl").open()]
    text = b"".join(gzip.decompress(file.read_bytes()) for file in summary.folder.glob("*.gz"))
    ids = {json.loads(line)["eventID"] for line in text.splitlines()}
    assert summary.attack_events == len(labels) > 0
    assert {label["event_id"] for label in labels} <= ids
