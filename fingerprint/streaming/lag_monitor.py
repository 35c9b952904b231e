"""Whether messages keep coming: a broker that went away, a partition that stands still. For every program that reads."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Gauge

from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Consumer, Message, Offsets, Partition
from fingerprint.core.settings import Kafka
from fingerprint.streaming import stall_detector
from fingerprint.streaming.stall_detector import StallDetector

POLL_INTERVAL_SECONDS = 5.0  # between two looks
LAG_TIMEOUT_SECONDS = 2.0  # a look that takes longer is given up: reading must go on where it can

log = logging.getLogger("fingerprint.watch")


class LagMonitorMetrics:
    """One registry a process, or one a test."""

    def __init__(self, prefix: str, registry: CollectorRegistry) -> None:
        self.stalled_partitions = Gauge(
            f"{prefix}_stalled_partitions",
            "Partitions that lag and make no progress although the broker answers.",
            registry=registry,
        )
        self.unanswered_seconds = Gauge(
            f"{prefix}_broker_unresponsive_seconds",
            "Time since the oldest unanswered request to the broker, in seconds; 0 if none is open.",
            registry=registry,
        )


class LagMonitor:
    """Looks at the lag now and then, remembers which questions to the broker were not answered, says what is wrong.

    Example:
        >>> watch.saw(messages)                        # what a poll handed on
        >>> with watch.asking():
        ...     producer.flush()                       # a question too: a broker that is away does not answer it
        >>> lag = watch.look()                         # each turn; None between looks, and without an answer
        >>> watch.trouble()                            # a sentence for /readyz, from any thread
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
        self.stall_detector = StallDetector(stall_detector.STALL_SECONDS)
        self.positions: dict[Partition, int] = {}
        self.stalled: list[Partition] = []
        self.oldest_pending_request: float | None = (
            None  # when the oldest question was asked that is not answered yet
        )
        self.logged_unavailable = False
        self.next_poll = now() + self.poll_interval

    def observe(self, messages: Sequence[Message]) -> None:
        """What was handed on, in order within each partition."""
        self.positions |= {message.source_partition: message.offset + 1 for message in messages}

    def poll(self, paused: Collection[Partition] = ()) -> Offsets | None:
        """The lag of each assigned partition, if it is time and the broker answers."""
        if self.now() < self.next_poll:
            return None
        lag = self._fetch_lag()
        self.next_poll = self.now() + self.poll_interval
        self._log_broker_availability()
        if lag is not None:
            self._log_stalled_partitions(self.stall_detector.stalled(self.now(), self.positions, lag, paused))
        return lag

    @contextmanager
    def awaiting_broker(self) -> Iterator[None]:
        """Around whatever waits for the broker; answered if nothing is raised."""
        self.request_sent()
        yield
        self.response_received()

    def request_sent(self) -> None:
        self.oldest_pending_request = (
            self.now() if self.oldest_pending_request is None else self.oldest_pending_request
        )

    def response_received(self) -> None:
        self.oldest_pending_request = None

    def seconds_unanswered(self) -> float:
        """For how many seconds the broker has owed an answer."""
        asked = self.oldest_pending_request
        return 0.0 if asked is None else self.now() - asked

    def problem(self) -> str | None:
        """Why a program that reads is not ready, in one sentence; None while all is well."""
        if self.seconds_unanswered() > self.settings.request_timeout_seconds:
            return f"no broker has answered for {self.seconds_unanswered():.0f} s"
        if self.stalled:
            return f"{_format_partitions(self.stalled)} lag and have stood still for {self.stall_detector.stall_seconds:.0f} s or longer"
        return None

    def _fetch_lag(self) -> dict[Partition, int] | None:
        try:
            with self.awaiting_broker():
                return self.consumer.lag(self.lag_timeout)
        except FingerprintError:
            return None

    def _log_broker_availability(self) -> None:
        away = self.seconds_unanswered() > self.settings.request_timeout_seconds
        self.metrics.unanswered_seconds.set(self.seconds_unanswered())
        if away and not self.logged_unavailable:
            log.warning("no broker answers", extra={"fields": {"seconds": round(self.seconds_unanswered())}})
        if self.logged_unavailable and not away:
            log.info("a broker answers again")
        self.logged_unavailable = away

    def _log_stalled_partitions(self, stalled: list[Partition]) -> None:
        self.metrics.stalled_partitions.set(len(stalled))
        if stalled != self.stalled:
            told = "partitions stand still" if stalled else "no partition stands still any more"
            log.warning(told, extra={"fields": {"partitions": [each.label for each in stalled]}})
        self.stalled = stalled


def _format_partitions(partitions: Sequence[Partition]) -> str:
    return ", ".join(each.label for each in partitions)
