"""Who takes the bodies for a receiver: a webhook, or a topic of Kafka's. The one place that chooses."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from fingerprint.core.alert import FingerprintError
from fingerprint.core.extras import how_to_install
from fingerprint.core.ports import Away, Full, Producer, Undelivered
from fingerprint.core.settings import Deliver, Settings
from fingerprint.delivery.outbox import Taker
from pipelines.runtime import wiring


def taker(name: str, settings: Settings) -> Taker:
    """Of one receiver of the settings, open. FingerprintError that names it where it cannot be."""
    wants = settings.deliver[name]
    try:
        return TopicTaker(wants, settings) if wants.kind == "kafka" else _webhook(wants)
    except FingerprintError as error:
        raise FingerprintError(f"deliver.{name}: {error}") from None


def _webhook(wants: Deliver) -> Taker:
    try:
        from fingerprint.adapters.webhook import Webhook
    except ImportError as error:
        raise FingerprintError(
            f"kind {wants.kind} needs a package that is not there ({error.name}): {how_to_install('deliver')}"
        ) from None
    return Webhook(wants)


class TopicTaker:
    """A Taker behind a topic, keyed by the principal. Each body is waited for: what is marked as sent has arrived. The producer
    is opened when the first one goes, and anew after one that did not arrive."""

    def __init__(self, wants: Deliver, settings: Settings) -> None:
        self.topic, self.seconds, self.settings = wants.topic or "", wants.seconds, settings.kafka
        self.producer: Producer | None = None

    def take(self, key: str, body: bytes, principal: str, now: datetime) -> None:
        try:
            self.producer = self.producer or wiring.open_producer(self.settings)
            headers = (("idempotency-key", key.encode()),)
            self.producer.send(self.topic, body, principal.encode(errors="replace"), headers)
            self.producer.flush(self.seconds)
        except (Full, Undelivered, FingerprintError) as error:
            self.close()
            raise Away(f"topic {self.topic}: {error}") from None

    def close(self) -> None:
        opened, self.producer = self.producer, None
        if opened:
            with suppress(Undelivered, FingerprintError):
                opened.close()
