"""The programs that a bench starts accept the settings it gives them."""

from __future__ import annotations

from pathlib import Path

from fingerprint.core.settings import Settings
from pipelines.bench.broker import BenchmarkStream


def test_every_setting_of_a_bench_exists_and_names_the_topics_of_its_stream(tmp_path: Path) -> None:
    stream = BenchmarkStream("127.0.0.1:9092", "rates", tmp_path / "bank", tmp_path)
    kafka = Settings.model_validate(stream.settings("confluent", "group")).kafka
    assert (kafka.raw_topic, kafka.events_topic, kafka.alerts_topic, kafka.votes_topic) == (
        "rates.raw",
        "rates.events",
        "rates.alerts",
        "rates.votes",
    )
