"""A partition that lags and stands still is news, and nothing else is; nor is a broker that pauses for breath."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Message, Partition
from fingerprint.core.settings import Kafka
from fingerprint.streaming.lag_monitor import LagAge, LagMonitor, LagMonitorMetrics, StallDetector
from fingerprint.streaming.metrics import IngestMetrics

A, B = Partition("events", 0), Partition("events", 1)


def test_a_partition_that_lags_and_stands_still_is_stuck_after_a_while() -> None:
    watchdog = StallDetector(120)
    assert watchdog.stalled(0, {A: 7, B: 7}, {A: 3, B: 3}) == []
    assert watchdog.stalled(119, {A: 7, B: 8}, {A: 9, B: 9}) == []
    assert watchdog.stalled(120, {A: 7, B: 8}, {A: 9, B: 9}) == [A]
    assert watchdog.stalled(300, {A: 8, B: 8}, {A: 9, B: 9}) == [B]


def test_a_partition_of_which_nothing_ever_came_is_stuck_too() -> None:
    watchdog = StallDetector(120)
    watchdog.stalled(0, {}, {A: 3})
    assert watchdog.stalled(120, {}, {A: 3}) == [A]


@pytest.mark.parametrize("lag", [{A: 0}, {}], ids=["read to its end", "given away"])
def test_one_that_has_a_reason_to_stand_is_not_stuck_and_starts_again(lag: Mapping[Partition, int]) -> None:
    watchdog = StallDetector(120)
    watchdog.stalled(0, {A: 7}, {A: 3})
    assert watchdog.stalled(200, {A: 7}, lag) == []
    assert watchdog.stalled(210, {A: 7}, {A: 3}) == []
    assert watchdog.stalled(330, {A: 7}, {A: 3}) == [A]


class Lagging:
    """A consumer as far as a watch looks at it, and the clock by which it does."""

    def __init__(self) -> None:
        self.behind: dict[Partition, int] | None = {A: 3}
        self.time = 0.0

    def lag(self, seconds: float | None = None) -> dict[Partition, int]:
        if self.behind is None:
            raise FingerprintError("no broker answers")
        return self.behind

    def now(self) -> float:
        return self.time


@pytest.fixture
def consumer() -> Lagging:
    return Lagging()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def watch(consumer: Lagging, registry: CollectorRegistry) -> LagMonitor:
    settings = Kafka(request_timeout_ms=30_000)
    return LagMonitor(consumer, settings, LagMonitorMetrics("test", registry), consumer.now)  # type: ignore[arg-type]


def look_until(watch: LagMonitor, consumer: Lagging, time: float) -> None:
    while consumer.time < time:
        consumer.time += 5
        watch.poll()


def test_a_stuck_partition_is_said_counted_and_forgotten_when_it_moves(
    watch: LagMonitor, consumer: Lagging, registry: CollectorRegistry
) -> None:
    watch.observe([Message(*A, 6)])
    look_until(watch, consumer, 100)
    assert watch.problem() is None
    look_until(watch, consumer, 130)
    assert watch.problem() == "events/0 lag and have stood still for 120 s or longer"
    assert registry.get_sample_value("test_stalled_partitions") == 1
    watch.observe([Message(*A, 7)])
    look_until(watch, consumer, 140)
    assert watch.problem() is None
    assert registry.get_sample_value("test_stalled_partitions") == 0


def test_a_broker_that_owes_an_answer_for_too_long_is_away_until_it_answers(
    watch: LagMonitor, consumer: Lagging, registry: CollectorRegistry
) -> None:
    consumer.behind = None
    look_until(watch, consumer, 30)
    assert watch.problem() is None
    look_until(watch, consumer, 40)
    assert watch.problem() == "no broker has answered for 35 s"
    assert registry.get_sample_value("test_broker_unresponsive_seconds") == 35
    consumer.behind = {A: 0}
    look_until(watch, consumer, 45)
    assert watch.problem() is None
    assert registry.get_sample_value("test_broker_unresponsive_seconds") == 0


def test_who_waits_for_the_broker_says_so_while_it_waits(watch: LagMonitor, consumer: Lagging) -> None:
    with suppress(ConnectionError), watch.awaiting_broker():
        consumer.time = 31.0
        assert watch.problem() == "no broker has answered for 31 s"
        raise ConnectionError
    assert watch.problem() is not None
    with watch.awaiting_broker():
        pass
    assert watch.problem() is None


class TestLagAge:
    """Seconds since the oldest unread message was written, at most; `now` is the wall clock."""

    now = 10_000.0

    @pytest.fixture
    def age(self) -> LagAge:
        return LagAge(lambda: self.now)

    def test_it_is_the_age_of_what_was_read_last(self, age: LagAge) -> None:
        age.observe([Message(*A, 6, timestamp=9_000_000), Message(*A, 7, timestamp=9_400_000)])
        age.update({A: 1})
        assert age.seconds(A) == 600
        self.now += 60
        assert age.seconds(A) == 660

    def test_one_message_after_a_quiet_night_is_no_lag(self, age: LagAge) -> None:
        age.observe([Message(*A, 7, timestamp=0)])
        age.update({A: 0})
        self.now += 30
        assert age.seconds(A) == 0
        age.update({A: 1})
        assert age.seconds(A) == 30

    def test_a_partition_of_which_nothing_comes_is_further_behind_each_time(self, age: LagAge) -> None:
        age.update({A: 5})
        assert age.seconds(A) == 0
        self.now += 400
        age.update({A: 5})
        assert age.seconds(A) == 400

    def test_a_backlog_is_as_old_as_it_is_once_a_message_of_it_was_read(self, age: LagAge) -> None:
        """After a start, or where a partition was taken over: its lag is mostly known before its first message."""
        age.update({A: 5})
        self.now += 10
        age.observe([Message(*A, 6, timestamp=2_810_000)])
        assert age.seconds(A) == 7_200
        age.update({A: 4})
        assert age.seconds(A) == 7_200

    @pytest.mark.parametrize("unknown", [0, -1])
    def test_a_message_of_no_known_time_was_written_when_it_was_read(self, age: LagAge, unknown: int) -> None:
        age.observe([Message(*A, 6, timestamp=unknown)])
        self.now += 30
        age.update({A: 1})
        assert age.seconds(A) == 30

    def test_who_reads_no_lag_any_more_may_be_behind(self, age: LagAge) -> None:
        """It waits for its database, or hangs, and the lag that it read before says nothing."""
        age.update({A: 0})
        self.now += 59
        assert age.seconds(A) == 0
        self.now += 600
        assert age.seconds(A) == 659

    def test_a_time_of_the_future_hides_no_lag(self, age: LagAge) -> None:
        """A producer sets it."""
        age.observe([Message(*A, 7, timestamp=99_999_000)])
        self.now += 50
        age.update({A: 1})
        assert age.seconds(A) == 50

    def test_a_partition_given_away_is_forgotten(self, age: LagAge) -> None:
        age.observe([Message(*A, 7, timestamp=0)])
        age.update({B: 0})
        age.update({A: 1, B: 0})
        assert (age.seconds(A), age.seconds(B)) == (0, 0)


def test_the_lag_in_seconds_is_read_with_the_lag(watch: LagMonitor, consumer: Lagging) -> None:
    watch.lag_age.now = lambda: 10_000.0
    watch.observe([Message(*A, 6, timestamp=9_900_000)])
    look_until(watch, consumer, 5)
    assert watch.lag_age.seconds(A) == 100


def test_ingest_reports_it_until_the_partition_is_given_away(registry: CollectorRegistry) -> None:
    metrics, name = IngestMetrics(registry), "fingerprint_ingest_lag_seconds"
    age = LagAge(lambda: 10_000.0)
    age.observe([Message(*A, 6, timestamp=9_940_000)])
    age.update({A: 3, B: 0})
    metrics.set_lag({A: 3, B: 0}, age)
    labels = {"topic": A.topic, "partition": str(A.number)}
    assert registry.get_sample_value(name, labels) == 60
    metrics.remove_partitions([A])
    assert registry.get_sample_value(name, labels) is None
