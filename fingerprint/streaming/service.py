"""The loop of a service: runs, optionally until the end of a topic, its liveness, and the figures of a run.

Example:
    >>> service = IngestService(consumer, producer, settings, IngestMetrics(registry))      # a ConsumerService
    >>> service.run(stop_requested=lambda: False, once=True)
    {'messages': 1200, ..., 'seconds': 0.8}
    >>> service.not_alive()                                 # a sentence for /livez, from any thread
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fingerprint.core.ports.message_stream import Consumer, Message, Partition
from fingerprint.core.settings import Kafka
from fingerprint.streaming.backpressure import PausableConsumer
from fingerprint.streaming.bounded_read import NO_PARTITION_ASSIGNED, EndOffsets
from fingerprint.streaming.lag_monitor import LagMonitor
from fingerprint.streaming.metrics import IngestMetrics, StreamMetrics
from fingerprint.streaming.poison import PoisonGuard

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger

POLL_SECONDS = 0.5
LIVENESS_TIMEOUT_SECONDS = 300.0  # a program without an iteration of its loop for so long is not alive


class PollingService:
    """A service that polls its input in a loop. Used by one thread; `not_alive` by any."""

    log: ClassVar[BoundLogger]

    def __init__(self, metrics: IngestMetrics | StreamMetrics) -> None:
        self._figures = metrics.figures
        self.last_iteration = time.monotonic()

    def not_alive(self) -> str | None:
        """Return why the program counts as hung, None while it is alive."""
        still = time.monotonic() - self.last_iteration
        return f"stands still for {still:.0f} s" if still > LIVENESS_TIMEOUT_SECONDS else None

    def _report_run(self, started: float) -> dict[str, Any]:
        """Log and return the figures of a run that began at `started`, on the monotonic clock."""
        figures = self._figures() | {"seconds": round(time.monotonic() - started, 3)}
        self.log.info("done", **figures)
        return figures


class ConsumerService(PollingService, ABC):
    """A service that polls one topic as a member of a consumer group, and pauses while it has no room.

    `poison_guard` finds messages that kill their reader. `joined` is True once the group has assigned partitions.
    """

    def __init__(
        self, consumer: Consumer, topic: str, kafka: Kafka, metrics: IngestMetrics | StreamMetrics
    ) -> None:
        super().__init__(metrics)
        self.consumer, self.source_topic, self.kafka = consumer, topic, kafka
        self.pausable_consumer = PausableConsumer(consumer, metrics.pauses.inc, self._note_poll)
        self.poison_guard = PoisonGuard(consumer, self.pausable_consumer.pause)
        self.lag_monitor = LagMonitor(consumer, kafka, metrics.lag_monitor)
        self.joined = False

    def run(self, stop_requested: Callable[[], bool], once: bool = False) -> dict[str, Any]:
        """Run until a stop is requested, or with `once` up to the end that the topic had at the start; return the figures."""
        started = time.monotonic()
        self.consumer.subscribe([self.source_topic], on_assigned=self.assigned, on_revoked=self.revoked)
        timeout_ms = self.kafka.session_timeout_ms + self.kafka.request_timeout_ms
        end = EndOffsets(self.consumer, assignment_timeout_seconds=timeout_ms / 1000)
        with self.poison_guard.clearing_marks_on_error():
            while not stop_requested():
                end.observe(self.run_once(POLL_SECONDS))
                if once and end.is_reached():
                    break
        self._finish(once)
        if end.unassigned:
            self.log.warning(NO_PARTITION_ASSIGNED)
        return self._report_run(started)

    @abstractmethod
    def run_once(self, seconds: float) -> list[Message]:
        """Poll once and process the messages; return them."""

    @abstractmethod
    def assigned(self, partitions: Collection[Partition]) -> Mapping[Partition, int] | None:
        """Begin to read partitions; return the positions to begin at, None for the committed ones."""

    @abstractmethod
    def revoked(self, partitions: Collection[Partition]) -> None:
        """Give partitions away."""

    def _finish(self, once: bool) -> None:
        """Do the remaining work after the last iteration."""

    def _note_poll(self) -> None:
        """Count as alive: a program that polls does not hang, even if it waits for the database or reads messages one by one."""
        self.last_iteration = time.monotonic()
