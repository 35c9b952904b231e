"""Back-pressure: pause the consumer while the next stage is full, and keep polling, so that it stays a member of its group."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports.message_stream import Consumer, Message, Partition, Producer, QueueFull
from fingerprint.streaming.event_messages import OutgoingMessage
from fingerprint.streaming.lag_monitor import LagMonitor


class PausableConsumer:
    """A consumer that can be paused. Messages that arrive while it is paused are kept for the next poll.

    `on_pause` is called when a pause begins, so that pauses can be counted: a second `pause` before `resume` is the same pause.
    `on_poll` is called before each poll.
    """

    def __init__(
        self, consumer: Consumer, on_pause: Callable[[], None], on_poll: Callable[[], None] = lambda: None
    ) -> None:
        self.consumer, self.on_pause, self.on_poll = consumer, on_pause, on_poll
        self.is_paused = False
        self.paused_partitions: frozenset[Partition] = frozenset()
        self.backlog: list[Message] = []

    def poll(self, timeout_seconds: float) -> list[Message]:
        """Return the backlog if there is any, else poll."""
        self.on_poll()
        kept, self.backlog = self.backlog, []
        return kept or self.consumer.poll(timeout_seconds)

    def pause(self) -> None:
        """Pause all assigned partitions, and poll once, which shows the group that this member is alive."""
        if not self.is_paused:
            self.on_pause()
        self.is_paused = True
        assigned = self.consumer.assignment()
        self.consumer.pause(assigned)
        self.paused_partitions |= assigned
        self.poll_to_backlog(0.0)

    def poll_to_backlog(self, seconds: float) -> None:
        """Poll, and keep the messages for the next poll."""
        self.on_poll()
        self.backlog += self.consumer.poll(seconds)

    def resume(self) -> None:
        """Resume the paused partitions: there is room again."""
        self.is_paused = False
        if self.paused_partitions:
            self.consumer.resume(self.paused_partitions & self.consumer.assignment())
            self.paused_partitions = frozenset()

    def drop_backlog(self, partitions: Collection[Partition]) -> None:
        """Drop kept messages of revoked partitions."""
        self.backlog = [message for message in self.backlog if message.source_partition not in partitions]


class RetryingProducer:
    """Send to a producer that may be full, for at most `patience` seconds.

    `on_full` is called when the producer has no room for a message, `before_retry` before each new attempt.

    It is a loop of our own instead of `stamina` because the consumer must be polled between attempts, or the group takes its
    partitions away.
    """

    def __init__(
        self,
        producer: Producer,
        patience: float,
        before_retry: Callable[[], None] = lambda: None,
        on_full: Callable[[], None] = lambda: None,
    ) -> None:
        self.producer, self.patience = producer, patience
        self.before_retry, self.on_full = before_retry, on_full

    def send(self, topic: str, outgoing: OutgoingMessage) -> None:
        """Send a message. Raise FingerprintError after `patience` seconds without room; DeliveryFailed is the producer's."""
        full = self._try_send(topic, outgoing)
        if full is None:
            return
        self.on_full()
        deadline = time.monotonic() + self.patience
        while full is not None:
            if time.monotonic() > deadline:
                raise FingerprintError(
                    f"nothing could be sent to {topic} for {self.patience:.0f} s ({full}); "
                    "start again when the broker is back"
                )
            self.before_retry()
            full = self._try_send(topic, outgoing)

    def _try_send(self, topic: str, outgoing: OutgoingMessage) -> QueueFull | None:
        try:
            self.producer.send(topic, outgoing.value, outgoing.key, outgoing.headers)
        except QueueFull as full:
            return full
        return None


class PausingProducer:
    """Send the results of a consumer's messages. While the producer is full, the consumer is paused and polled.

    Example:
        >>> producer = PausingProducer(kafka_producer, 120.0, pausable_consumer, lag_monitor)
        >>> producer.send_all("events", outgoing)
    """

    def __init__(
        self, producer: Producer, patience: float, consumer: PausableConsumer, lag_monitor: LagMonitor
    ) -> None:
        self.consumer, self.lag_monitor = consumer, lag_monitor
        self._producer = RetryingProducer(producer, patience, self._pause)

    def send_all(self, topic: str, outgoing: Iterable[OutgoingMessage]) -> None:
        """Send messages, then resume the consumer. Raises as `RetryingProducer.send` does."""
        for each in outgoing:
            self._producer.send(topic, each)
        if self.consumer.paused_partitions:
            self.lag_monitor.response_received()
        self.consumer.resume()

    def _pause(self) -> None:
        """Pause: the producer is full, and the broker has not answered."""
        self.lag_monitor.request_sent()
        self.consumer.pause()


log = get_logger("fingerprint.dependencies")


class DependencyStatus:
    """Dependencies that fail, with the reason: each is logged once, and removed when the dependency recovers.

    `name in status` is True while the dependency fails.
    """

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}

    def __contains__(self, dependency: str) -> bool:
        return dependency in self.failures

    def fail(self, dependency: str, reason: str) -> None:
        """Record why a dependency fails."""
        if self.failures.get(dependency) != reason:
            log.warning("dependency fails", dependency=dependency, reason=reason)
        self.failures[dependency] = reason

    def recover(self, dependency: str) -> None:
        """Record that a dependency works."""
        if self.failures.pop(dependency, None):
            log.info("dependency works again", dependency=dependency)

    def summary(self) -> str | None:
        """Return all reasons in one line, None if nothing fails."""
        return "; ".join(f"{name}: {reason}" for name, reason in sorted(self.failures.items())) or None
