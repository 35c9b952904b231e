"""A stream at a constant rate is one, and memory that grows is told from memory that does not."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from fingerprint.core.settings import Settings
from fingerprint.registry import bank_files
from fingerprint.training import pipeline
from pipelines.bench import soak
from pipelines.bench.in_memory import MemoryStream
from pipelines.bench.organisations import organisation_files, read_events


@pytest.fixture(scope="module")
def hours(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two days of six principals at a constant rate."""
    with organisation_files(6, 2, scale=0.5, attacks=0) as days:
        return soak.constant_hours(days, tmp_path_factory.mktemp("hours"))


def test_a_constant_rate_has_as_many_records_in_each_hour_as_in_any_other(hours: list[Path]) -> None:
    records = [json.loads(line) for hour in hours for line in hour.read_bytes().splitlines()]
    times = [record["eventTime"] for record in records]
    counts = Counter(time[:13] for time in times)
    assert len(counts) == len(hours) == 48
    assert len(set(counts.values())) == 1
    assert times == sorted(times)


def test_memory_that_wanders_is_flat_and_memory_that_grows_is_not() -> None:
    wandering = 400 + np.random.default_rng(0).normal(0, 3, 168)
    assert soak.slope_a_day(wandering.tolist()).is_flat
    growing = soak.slope_a_day((wandering + np.arange(168) / 24).tolist())
    assert not growing.is_flat
    assert growing.low < 1 < growing.high


def test_a_stream_in_memory_scores_every_record_and_keeps_none(hours: list[Path], tmp_path: Path) -> None:
    settings = Settings.model_validate({"entities": {"min_ready_events": 10, "min_ready_days": 1}})
    learned = [str(hour) for hour in hours[:24]]
    bank_files.publish_version(pipeline.train(read_events(learned, settings), settings), tmp_path / "bank")
    sent = 0
    with MemoryStream.opened(tmp_path) as stream:
        for number, hour in enumerate(hours[24:27]):
            lines = hour.read_bytes().splitlines()
            sent += len(lines)
            stream.process(lines, datetime.fromisoformat(f"{hour.stem}:00+00:00") + timedelta(hours=1))
            assert stream.clock.now().astimezone(UTC).hour == number + 1
        figures = stream.service.metrics.figures()
        assert figures["events"] + figures["duplicates"] == sent > 0
        assert stream.broker.messages(stream.partition.topic) == []
        assert stream.service.owned[stream.partition].committed == sent
