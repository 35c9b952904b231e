"""Sending through confluent-kafka, whose own queue is bounded; only what fails is reported back.

Example:
    >>> producer = ConfluentProducer(settings.kafka)
    >>> producer.send("fingerprint.events", record, key=principal)
    >>> producer.flush()
"""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from fingerprint.adapters.kafka.confluent import said
from fingerprint.adapters.kafka.confluent_errors import Reason, greet
from fingerprint.adapters.kafka.confluent_settings import connection
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Full, Headers, Producer, Undelivered
from fingerprint.core.settings import Kafka


class ConfluentProducer(Producer):
    """See `ports.Producer`. Keys are hashed with murmur2, as Java and kafka-python do, not librdkafka's own CRC32."""

    def __init__(self, settings: Kafka):
        self._settings = settings
        self._failure: KafkaError | None = None
        self._known: set[str] = set()
        self._closed = False
        reason = Reason()
        with said(settings):
            self._client = confluent_kafka.Producer(_options(settings) | {"error_cb": reason.hear})
            greet(self._client, settings, reason)

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> None:
        if topic not in self._known:
            self._look_up(topic)
        deadline = time.monotonic() + self._settings.send_seconds
        while not self._taken(topic, value, key, headers):
            if time.monotonic() > deadline:
                raise Full(f"{self._settings.in_flight_bytes:,} bytes are in flight and do not arrive")
            self._client.poll(0.05)
        self._land()

    def _taken(self, topic: str, value: bytes | None, key: bytes | None, headers: Headers) -> bool:
        try:
            self._client.produce(topic, value, key, headers=list(headers), on_delivery=self._landed)
        except BufferError:
            return False
        except KafkaException as exception:
            error = exception.args[0]
            if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                raise FingerprintError("a message is larger than kafka.message_bytes") from exception
            raise Undelivered(error.str()) from exception
        return True

    def _look_up(self, topic: str) -> None:
        """librdkafka takes messages for any topic and finds out later; here it is asked first, once a topic."""
        with said(self._settings):
            found = self._client.list_topics(topic, timeout=self._settings.answer_seconds).topics[topic]
        if found.error is not None:
            raise FingerprintError(f"there is no topic {topic}: create it first")
        self._known.add(topic)

    def _landed(self, error: KafkaError | None, _: Any) -> None:
        self._failure = self._failure or error

    def _land(self) -> None:
        self._client.poll(0)
        if self._failure is not None:
            raise Undelivered(self._failure.str())

    def flush(self, seconds: float | None = None) -> None:
        left = self._client.flush(self._settings.delivery_seconds if seconds is None else seconds)
        self._land()
        if left:
            raise Undelivered(f"{left} messages have not arrived")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self.flush(self._settings.answer_seconds)
        finally:
            self._client.purge()


def _options(settings: Kafka) -> dict[str, Any]:
    return {
        **connection(settings),
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "compression.type": settings.compression,
        "linger.ms": settings.linger_milliseconds,
        "queue.buffering.max.kbytes": max(settings.in_flight_bytes >> 10, 1),
        "message.max.bytes": settings.message_bytes,
        "delivery.timeout.ms": int(settings.delivery_seconds * 1000),
        "delivery.report.only.error": True,
        "allow.auto.create.topics": False,
    }
