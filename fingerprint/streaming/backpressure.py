"""When there is no room for what follows, fetch nothing, and poll all the same, or the group takes us for dead."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection

from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Consumer, Message, Partition, Producer, QueueFull
from fingerprint.streaming.rekeying import OutgoingMessage


class PausableConsumer:
    """A consumer that can be made silent. What it hands on meanwhile is kept for the next turn.

    `on_pause` is called each time, for whoever counts.
    """

    def __init__(self, consumer: Consumer, on_pause: Callable[[], None]) -> None:
        self.consumer, self.on_pause = consumer, on_pause
        self.paused_partitions: frozenset[Partition] = frozenset()
        self.backlog: list[Message] = []

    def poll(self, timeout_seconds: float) -> list[Message]:
        """What was kept, or else what comes."""
        kept, self.backlog = self.backlog, []
        return kept or self.consumer.poll(timeout_seconds)

    def pause(self) -> None:
        """Silence what is ours, and let the group know that we live."""
        self.on_pause()
        assigned = self.consumer.assignment()
        self.consumer.pause(assigned)
        self.paused_partitions |= assigned
        self.poll_to_backlog(0.0)

    def poll_to_backlog(self, seconds: float) -> None:
        """Poll, and keep what comes for the next turn."""
        self.backlog += self.consumer.poll(seconds)

    def resume(self) -> None:
        """There is room again."""
        if self.paused_partitions:
            self.consumer.resume(self.paused_partitions & self.consumer.assignment())
            self.paused_partitions = frozenset()

    def drop_backlog(self, partitions: Collection[Partition]) -> None:
        """Others have these now."""
        self.backlog = [message for message in self.backlog if message.source_partition not in partitions]


class RetryingProducer:
    """Sends to a producer that may be full. `while_full` is called before each new try."""

    def __init__(
        self, producer: Producer, patience: float, before_retry: Callable[[], None] = lambda: None
    ) -> None:
        self.producer, self.patience, self.before_retry = producer, patience, before_retry

    def send(self, topic: str, outgoing: OutgoingMessage) -> None:
        """FingerprintError after `patience` seconds without room; Undelivered as the producer raises it."""
        full = self._try_send(topic, outgoing)
        if full is None:
            return
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


log = logging.getLogger("fingerprint.trouble")


class DependencyStatus:
    """By the name of the door."""

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}

    def __contains__(self, dependency: str) -> bool:
        return dependency in self.failures

    def fail(self, dependency: str, reason: str) -> None:
        if self.failures.get(dependency) != reason:
            log.warning("in trouble", extra={"fields": {"door": dependency, "what": reason}})
        self.failures[dependency] = reason

    def recover(self, dependency: str) -> None:
        if self.failures.pop(dependency, None):
            log.info("no longer in trouble", extra={"fields": {"door": dependency}})

    def summary(self) -> str | None:
        """All of them, None if there are none."""
        return "; ".join(f"{door}: {what}" for door, what in sorted(self.failures.items())) or None
