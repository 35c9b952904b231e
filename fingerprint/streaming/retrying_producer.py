"""Sending with patience: room is waited for, a broker that stays away ends the program with a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable

from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Producer, QueueFull
from fingerprint.streaming.rekeying import OutgoingMessage


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
