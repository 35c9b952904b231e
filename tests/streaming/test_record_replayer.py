"""A replayer waits only until a tick's records are due, flushes before it waits, and counts every record once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fingerprint.core.settings import Kafka, Settings
from fingerprint.sources.base import RecordBatch
from fingerprint.streaming import record_replayer
from fingerprint.streaming.record_replayer import RecordReplayer
from fingerprint.streaming.replay_rate import ReplayRate
from tests.streaming.test_rekeying import record
from tests.support.manual_clock import ManualClock
from tests.support.memory_broker import MemoryBroker
from tests.support.memory_clients import MemoryProducer, on

START = datetime(2026, 3, 2, tzinfo=UTC)


class Diary(ManualClock):
    """It notes waits, in seconds after the start, and flushes."""

    def __init__(self) -> None:
        super().__init__(START)
        self.entries: list[str] = []

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.entries.append(f"waited until {self.seconds:g}")


class FlushNoted(MemoryProducer):
    """A producer on a broker in memory that writes into a diary when it is flushed."""

    def __init__(self, diary: Diary) -> None:
        broker = MemoryBroker()
        broker.create_topic("raw", 2)
        super().__init__(Kafka(**on(broker), group_id="reader"))
        self.diary = diary

    def flush(self) -> None:
        self.diary.entries.append("flushed")
        super().flush()


@pytest.fixture
def diary() -> Diary:
    return Diary()


def replayer(diary: Diary, pace: ReplayRate) -> RecordReplayer:
    return RecordReplayer("raw", FlushNoted(diary), diary, pace, patience=1)


def batch(*lines: bytes) -> RecordBatch:
    return RecordBatch(list(lines), [("day.jsonl", str(number)) for number in range(len(lines))], [])


def test_what_was_sent_is_flushed_before_a_wait_and_records_of_one_tick_are_sent_together(
    diary: Diary,
) -> None:
    times = ["12:00:00", "12:00:01", "12:10:00"]  # at 600 times real time: 0, 0.0017 and 1 seconds
    lines = [record(n, time=f"2023-07-10T{time}Z") for n, time in enumerate(times)]
    replaying = replayer(diary, ReplayRate(speed=600))
    replaying.send(batch(*lines), Settings(), keyed=False)
    assert diary.entries == ["flushed", "waited until 1"]
    assert replaying.figures()["seconds"] == 1


def test_batches_are_counted_together(diary: Diary) -> None:
    lines = [record(n) for n in range(3)]
    replaying = replayer(diary, ReplayRate())
    replaying.send(batch(lines[0], b"{not json"), Settings(), keyed=False)
    replaying.send(batch(lines[1], lines[2]), Settings(), keyed=True)
    figures = replaying.figures()
    assert (figures["records"], figures["rejects"], figures["bytes"]) == (3, 1, sum(map(len, lines)))
    assert figures["topic"] == "raw"
    assert diary.entries == []


def test_reasons_beyond_a_limit_are_only_counted(diary: Diary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_replayer, "MAX_REASONS", 2)
    replaying = replayer(diary, ReplayRate())
    for _ in range(2):
        replaying.send(batch(b"{not json", b"{neither", record(1)), Settings(), keyed=False)
    figures = replaying.figures()
    assert (figures["rejects"], len(figures["reasons"])) == (4, 2)
