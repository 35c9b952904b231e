"""Who takes the bodies for a receiver: a webhook, or a topic of Kafka's. The one place that chooses."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from fingerprint.core.alert import FingerprintError
from fingerprint.core.extras import how_to_install
from fingerprint.core.ports import DeliveryFailed, Producer, QueueFull, Unavailable
from fingerprint.core.settings import ReceiverSettings, Settings
from fingerprint.delivery.outbox import Receiver
from pipelines.runtime import wiring


def create_receiver(name: str, settings: Settings) -> Receiver:
    """Of one receiver of the settings, open. FingerprintError that names it where it cannot be."""
    wants = settings.deliver[name]
    try:
        return TopicReceiver(wants, settings) if wants.kind == "kafka" else _create_webhook(wants)
    except FingerprintError as error:
        raise FingerprintError(f"deliver.{name}: {error}") from None


def _create_webhook(options: ReceiverSettings) -> Receiver:
    try:
        from fingerprint.adapters.webhook import WebhookReceiver
    except ImportError as error:
        raise FingerprintError(
            f"kind {options.kind} needs a package that is not there ({error.name}): {how_to_install('deliver')}"
        ) from None
    return WebhookReceiver(options)


class TopicReceiver:
    """A Taker behind a topic, keyed by the principal. Each body is waited for: what is marked as sent has arrived. The producer
    is opened when the first one goes, and anew after one that did not arrive."""

    def __init__(self, options: ReceiverSettings, settings: Settings) -> None:
        self.topic, self.seconds, self.settings = options.topic or "", options.timeout_seconds, settings.kafka
        self.producer: Producer | None = None

    def deliver(self, key: str, body: bytes, principal: str, now: datetime) -> None:
        try:
            self.producer = self.producer or wiring.open_producer(self.settings)
            headers = (("idempotency-key", key.encode()),)
            self.producer.send(self.topic, body, principal.encode(errors="replace"), headers)
            self.producer.flush(self.seconds)
        except (QueueFull, DeliveryFailed, FingerprintError) as error:
            self.close()
            raise Unavailable(f"topic {self.topic}: {error}") from None

    def close(self) -> None:
        opened, self.producer = self.producer, None
        if opened:
            with suppress(DeliveryFailed, FingerprintError):
                opened.close()
