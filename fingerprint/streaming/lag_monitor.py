"""Lag monitor: the lag of a consumer, a broker that does not answer, stalled partitions. For every program that reads a topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Gauge

from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports.message_stream import (
    Consumer,
    Message,
    Offsets,
    Partition,
    last_timestamps,
    next_offsets,
)
from fingerprint.core.settings import Kafka

POLL_INTERVAL_SECONDS = 5.0  # between two reads of the lag
PARTITION_STALL_SECONDS = 120.0  # a lagging partition without progress for so long is stalled
LAG_TIMEOUT_SECONDS = 2.0  # a read that takes longer is given up, because polling must go on

MAX_LAG_READING_AGE_SECONDS = 60.0  # a lag of 0 is no longer believed if it was read so long ago

log = get_logger("fingerprint.watch")


class LagMonitorMetrics:
    """Gauges of a lag monitor; one registry a process, or one a test."""

    def __init__(self, prefix: str, registry: CollectorRegistry) -> None:
        self.stalled_partitions = Gauge(
            f"{prefix}_stalled_partitions", "Partitions that lag and do not progress.", registry=registry
        )
        self.unanswered_seconds = Gauge(
            f"{prefix}_broker_unresponsive_seconds",
            "Time since the oldest request that the broker has not answered; 0 while it answers.",
            registry=registry,
        )


class LagMonitor:
    """Reads the lag every few seconds, and notices stalled partitions and requests that the broker does not answer.

    Example:
        >>> monitor.observe(messages)                  # what a poll returned
        >>> with monitor.awaiting_broker():
        ...     producer.flush()                       # a request too: an unavailable broker does not answer it
        >>> lag = monitor.poll()                       # in each iteration; None between two reads, and without an answer
        >>> monitor.problem()                          # a sentence for /readyz, from any thread
    """

    def __init__(
        self,
        consumer: Consumer,
        settings: Kafka,
        metrics: LagMonitorMetrics,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.consumer, self.settings, self.metrics, self.now = consumer, settings, metrics, now
        self.lag_timeout = min(LAG_TIMEOUT_SECONDS, settings.request_timeout_seconds)
        self.poll_interval = min(POLL_INTERVAL_SECONDS, settings.request_timeout_seconds / 2)
        self.stall_detector = StallDetector(PARTITION_STALL_SECONDS)
        self.lag_age = LagAge()
        self.positions: dict[Partition, int] = {}
        self.stalled: list[Partition] = []
        # Time at which the oldest unanswered request was sent
        self.oldest_pending_request: float | None = None
        self.logged_unavailable = False
        self.next_poll = now() + self.poll_interval

    def observe(self, messages: Sequence[Message]) -> None:
        """Note the positions of polled messages, in order within each partition."""
        self.positions |= next_offsets(messages)
        self.lag_age.observe(messages)

    def poll(self) -> Offsets | None:
        """Return the lag of each assigned partition in messages, if it is time to read it and the broker answers."""
        if self.now() < self.next_poll:
            return None
        lag = self._fetch_lag()
        self.next_poll = self.now() + self.poll_interval
        self._log_broker_availability()
        if lag is not None:
            self.lag_age.update(lag)
            self._log_stalled_partitions(self.stall_detector.stalled(self.now(), self.positions, lag))
        return lag

    @contextmanager
    def awaiting_broker(self) -> Iterator[None]:
        """Wrap a call that waits for the broker; the request counts as answered unless the call raises."""
        self.request_sent()
        yield
        self.response_received()

    def request_sent(self) -> None:
        """Note that the broker owes an answer."""
        self.oldest_pending_request = (
            self.now() if self.oldest_pending_request is None else self.oldest_pending_request
        )

    def response_received(self) -> None:
        """Note that the broker has answered."""
        self.oldest_pending_request = None

    def seconds_unanswered(self) -> float:
        """Return for how many seconds the oldest request has not been answered."""
        sent_at = self.oldest_pending_request
        return 0.0 if sent_at is None else self.now() - sent_at

    def problem(self) -> str | None:
        """Return why the program is not ready, None while it is."""
        if self.seconds_unanswered() > self.settings.request_timeout_seconds:
            return f"no broker has answered for {self.seconds_unanswered():.0f} s"
        if self.stalled:
            seconds = self.stall_detector.stall_seconds
            return (
                f"{_format_partitions(self.stalled)} lag and have stood still for {seconds:.0f} s or longer"
            )
        return None

    def _fetch_lag(self) -> dict[Partition, int] | None:
        try:
            with self.awaiting_broker():
                return self.consumer.lag(self.lag_timeout)
        except FingerprintError:
            return None

    def _log_broker_availability(self) -> None:
        unavailable = self.seconds_unanswered() > self.settings.request_timeout_seconds
        self.metrics.unanswered_seconds.set(self.seconds_unanswered())
        if unavailable and not self.logged_unavailable:
            log.warning("no broker answers", seconds=round(self.seconds_unanswered()))
        if self.logged_unavailable and not unavailable:
            log.info("a broker answers again")
        self.logged_unavailable = unavailable

    def _log_stalled_partitions(self, stalled: list[Partition]) -> None:
        self.metrics.stalled_partitions.set(len(stalled))
        if stalled != self.stalled:
            change = "partitions are stalled" if stalled else "no partition is stalled any more"
            log.warning(change, partitions=[each.label for each in stalled])
        self.stalled = stalled


def _format_partitions(partitions: Sequence[Partition]) -> str:
    return ", ".join(each.label for each in partitions)


class LagAge:
    """Measures lag in seconds: an upper bound on the age of the oldest unread message.

    Unread messages were written after the last message that was read, and after the last time at which none was unread. A number
    of messages would be a poor measure, as one has up to 1,000 records. If the lag has not been read for long, because the
    program waits for its database or hangs, the measure assumes that messages have come since then.

    Example:
        >>> age, partition = LagAge(now=lambda: 1_000.0), Partition("events", 0)
        >>> age.observe([Message("events", 0, 7, timestamp=940_000)])
        >>> age.update({partition: 3})
        >>> age.seconds(partition)
        60.0
        >>> age.update({partition: 0})
        >>> age.seconds(partition)
        0.0
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now  # seconds since 1970
        # Seconds since 1970; unread messages were written after it
        self._written_after: dict[Partition, float] = {}
        self._lagging_since: dict[Partition, float] = {}  # for partitions from which nothing was read yet
        self._read_to_end: frozenset[Partition] = frozenset()
        self._updated = now()

    def observe(self, messages: Sequence[Message]) -> None:
        """Note messages that were read. A timestamp that is missing or in the future counts as now: producers set it."""
        now = self.now()
        for partition, written_ms in last_timestamps(messages).items():
            written = min(written_ms / 1000, now) if written_ms > 0 else now
            self._written_after[partition] = max(self._written_after.get(partition, written), written)

    def update(self, lag: Offsets) -> None:
        """Note the lag of each assigned partition (messages). If nothing was read from one yet, its time counts from now."""
        self._updated = now = self.now()
        self._read_to_end = frozenset(each for each, behind in lag.items() if behind <= 0)
        known = {each: self._written_after[each] for each in lag if each in self._written_after}
        self._written_after = known | dict.fromkeys(self._read_to_end, now)
        self._lagging_since = {
            each: self._lagging_since.get(each, now) for each in lag if each not in self._written_after
        }

    def seconds(self, partition: Partition) -> float:
        """Return the age of a partition's lag now, 0 without lag; from any thread."""
        now = self.now()
        if partition in self._read_to_end and now - self._updated < MAX_LAG_READING_AGE_SECONDS:
            return 0.0
        since = self._written_after.get(partition, self._lagging_since.get(partition, now))
        return max(now - since, 0.0)


class StallDetector:
    """Finds partitions that lag and make no progress, although no error is raised.

    The time without progress of a partition starts at zero when it is assigned, and when it begins to lag again.

    Example:
        >>> detector, partition = StallDetector(stall_seconds=120), Partition("events", 0)
        >>> detector.stalled(0.0, {partition: 7}, {partition: 3})
        []
        >>> detector.stalled(130.0, {partition: 7}, {partition: 5})
        [Partition(topic='events', number=0)]
    """

    def __init__(self, stall_seconds: float) -> None:
        self.stall_seconds = stall_seconds
        self._last_progress: dict[Partition, tuple[int, float]] = {}  # position, and when it was reached

    def stalled(self, now: float, positions: Offsets, lag: Offsets) -> list[Partition]:
        """Return the partitions that have not progressed for `stall_seconds` or longer, in order.

        `now` is in seconds on a monotonic clock. `positions` are those of polled messages; a partition without any may be
        missing. `lag` is in messages, for every assigned partition.
        """
        before, self._last_progress = self._last_progress, {}
        for each in (each for each, behind in lag.items() if behind > 0):
            position = positions.get(each, -1)
            at, since = before.get(each, (position, now))
            self._last_progress[each] = (at, since) if at == position else (position, now)
        return sorted(
            each for each, (_, since) in self._last_progress.items() if now - since >= self.stall_seconds
        )
