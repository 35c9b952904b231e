"""Delivery to a topic: the receiver of kind `kafka`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from fingerprint.core.errors import FingerprintError, Unavailable
from fingerprint.core.ports.message_stream import DeliveryFailed, Producer, QueueFull
from fingerprint.core.settings import ReceiverSettings


class TopicReceiver:
    """A receiver behind a topic, keyed by principal. Implement `delivery.outbox.Receiver`.

    Each message is flushed, so a delivery that is marked as sent has arrived. The producer is opened for the first message, and
    again after a failure.
    """

    def __init__(self, options: ReceiverSettings, open_producer: Callable[[], Producer]) -> None:
        self.topic, self.seconds = options.topic or "", options.timeout_seconds
        self.open_producer = open_producer
        self.producer: Producer | None = None

    def deliver(self, key: str, body: bytes, principal: str, now: datetime) -> None:
        """Send a delivery and wait until it has arrived. Raise an error of `Receiver` where it has not."""
        try:
            self.producer = self.producer or self.open_producer()
            headers = (("idempotency-key", key.encode()),)
            self.producer.send(self.topic, body, principal.encode(errors="replace"), headers)
            self.producer.flush(self.seconds)
        except (QueueFull, DeliveryFailed, FingerprintError) as error:
            self.close()
            raise Unavailable(f"topic {self.topic}: {error}") from None

    def close(self) -> None:
        """Close the producer."""
        opened, self.producer = self.producer, None
        if opened:
            with suppress(DeliveryFailed, FingerprintError):
                opened.close()
