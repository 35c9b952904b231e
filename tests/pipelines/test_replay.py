"""Records go from files to a topic when they are due, and every one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fingerprint.adapters import files
from fingerprint.core.ports.message_stream import Message
from fingerprint.core.settings import Kafka, Settings
from fingerprint.streaming.bounded_read import poll_until_end
from fingerprint.streaming.replay_rate import ReplayRate
from pipelines.cli.console import no_progress
from pipelines.replay import replay_records
from tests.streaming.test_rekeying import ALICE, record
from tests.support.manual_clock import ManualClock
from tests.support.memory_broker import MemoryBroker
from tests.support.memory_clients import MemoryConsumer, MemoryProducer, on
from tests.support.sample_organisation import write

Run = Callable[..., tuple[dict[str, Any], Any]]
START = datetime(2026, 3, 2, tzinfo=UTC)


class ForwardClock(ManualClock):
    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        super().sleep(seconds)


class Watched(MemoryProducer):
    """Notes when each message was sent, in seconds after the start."""

    def __init__(self, clock: ForwardClock) -> None:
        broker = MemoryBroker()
        broker.create_topic("raw", 2)
        self.kafka = Kafka(**on(broker), group_id="reader")
        super().__init__(self.kafka)
        self.clock = clock
        self.sent: list[float] = []

    def send(self, *arguments: Any) -> None:
        self.sent.append((self.clock.now() - START).total_seconds())
        super().send(*arguments)

    def arrived(self) -> list[Message]:
        with MemoryConsumer(self.kafka) as consumer:
            consumer.subscribe(["raw"])
            return [message for messages in poll_until_end(consumer) for message in messages]


@pytest.fixture
def run() -> Run:
    def replayed(
        file: Path, pace: ReplayRate | None = None, keyed: bool = False
    ) -> tuple[dict[str, Any], Watched]:
        clock = ForwardClock(START)
        producer = Watched(clock)
        figures = replay_records(
            files.find_files([str(file)]),
            "raw",
            producer,
            Settings(),
            clock,
            no_progress,
            pace or ReplayRate(),
            keyed,
        )
        return figures, producer

    return replayed


def test_every_record_arrives_as_it_was_and_without_a_wait(tmp_path: Path, run: Run) -> None:
    records = [record(n) for n in range(30)]
    figures, producer = run(write(tmp_path / "day.jsonl", records))
    assert sorted(each.value or b"" for each in producer.arrived()) == sorted(records)
    assert (figures["records"], figures["rejects"], figures["seconds"]) == (30, 0, 0)


def test_real_records_arrive_too(run: Run) -> None:
    folder = Path(__file__).parents[2] / "data" / "real" / "invictus_stratus"
    figures, producer = run(folder)
    assert figures["records"] == len(producer.arrived()) > 100


def test_records_a_second_are_kept(tmp_path: Path, run: Run) -> None:
    figures, producer = run(
        write(tmp_path / "day.jsonl", [record(n) for n in range(201)]), ReplayRate(rate=100)
    )
    late = np.array(producer.sent) - np.arange(201) / 100
    assert np.abs(late).max() <= 0.05  # a tick
    assert figures["seconds"] == pytest.approx(2.0, abs=0.05)


def test_an_hour_passes_in_a_minute_at_sixty_times_real_time(tmp_path: Path, run: Run) -> None:
    times = ["12:00:00", "12:30:00", "12:10:00", "13:00:00"]
    records = [record(n, time=f"2023-07-10T{time}Z") for n, time in enumerate(times)]
    _, producer = run(write(tmp_path / "day.jsonl", records), ReplayRate(speed=60))
    assert producer.sent == [0, 30, 30, 60]
    values = [message.value for message in producer.arrived()]
    assert sorted(json.loads(value or b"")["eventID"] for value in values) == [f"event-{n}" for n in range(4)]


def test_keyed_records_carry_their_principal(tmp_path: Path, run: Run) -> None:
    file = write(tmp_path / "day.jsonl", [record(0), record(1, "bob")])
    assert {each.key for each in run(file)[1].arrived()} == {None}
    keys = {each.key for each in run(file, keyed=True)[1].arrived()}
    assert keys == {ALICE.encode(), b"111122223333:user/bob"}


def test_what_cannot_be_read_is_counted_with_its_reason(tmp_path: Path, run: Run) -> None:
    figures, _ = run(write(tmp_path / "day.jsonl", [record(0), b'{"eventVersion": "1.08", "ev', record(2)]))
    assert (figures["records"], figures["rejects"]) == (2, 1)
    assert "malformed JSON" in figures["reasons"][0]
