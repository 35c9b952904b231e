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

from fingerprint.adapters.kafka import limits
from fingerprint.adapters.kafka.confluent import translate_librdkafka_errors
from fingerprint.adapters.kafka.confluent_errors import ConnectionFailure, check_connection
from fingerprint.adapters.kafka.confluent_settings import librdkafka_options
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import DeliveryFailed, Headers, Producer, QueueFull
from fingerprint.core.settings import Kafka


class ConfluentProducer(Producer):
    """See `ports.Producer`. Keys are hashed with murmur2, as Java and kafka-python do, not librdkafka's own CRC32."""

    def __init__(self, settings: Kafka):
        self._settings = settings
        self._failure: KafkaError | None = None
        self._known_topics: set[str] = set()
        self._closed = False
        reason = ConnectionFailure()
        with translate_librdkafka_errors(settings):
            self._client = confluent_kafka.Producer(_options(settings) | {"error_cb": reason.on_error})
            check_connection(self._client, settings, reason)

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> None:
        if topic not in self._known_topics:
            self._require_topic(topic)
        deadline = time.monotonic() + limits.MAX_BLOCK_MS / 1000
        while not self._enqueue(topic, value, key, headers):
            if time.monotonic() > deadline:
                raise QueueFull(f"{limits.BUFFER_MEMORY:,} bytes are in flight and do not arrive")
            self._client.poll(0.05)
        self._raise_failure()

    def _enqueue(self, topic: str, value: bytes | None, key: bytes | None, headers: Headers) -> bool:
        try:
            self._client.produce(topic, value, key, headers=list(headers), on_delivery=self._on_delivery)
        except BufferError:
            return False
        except KafkaException as exception:
            error = exception.args[0]
            if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                raise FingerprintError("a message is larger than kafka.max_request_size") from exception
            raise DeliveryFailed(error.str()) from exception
        return True

    def _require_topic(self, topic: str) -> None:
        """librdkafka takes messages for any topic and finds out later; here it is asked first, once a topic."""
        with translate_librdkafka_errors(self._settings):
            found = self._client.list_topics(topic, timeout=self._settings.request_timeout_seconds).topics[
                topic
            ]
        if found.error is not None:
            raise FingerprintError(f"there is no topic {topic}: create it first")
        self._known_topics.add(topic)

    def _on_delivery(self, error: KafkaError | None, _: Any) -> None:
        self._failure = self._failure or error

    def _raise_failure(self) -> None:
        self._client.poll(0)
        if self._failure is not None:
            raise DeliveryFailed(self._failure.str())

    def flush(self, timeout_seconds: float | None = None) -> None:
        left = self._client.flush(
            self._settings.delivery_timeout_seconds if timeout_seconds is None else timeout_seconds
        )
        self._raise_failure()
        if left:
            raise DeliveryFailed(f"{left} messages have not arrived")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self.flush(self._settings.request_timeout_seconds)
        finally:
            self._client.purge()


def _options(settings: Kafka) -> dict[str, Any]:
    return {
        **librdkafka_options(settings),
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "compression.type": settings.compression_type,
        "linger.ms": settings.linger_ms,
        "queue.buffering.max.kbytes": max(limits.BUFFER_MEMORY >> 10, 1),
        "message.max.bytes": settings.max_request_size,
        "delivery.timeout.ms": settings.delivery_timeout_ms,
        "delivery.report.only.error": True,
        "allow.auto.create.topics": False,
    }
