"""The producer through confluent-kafka, whose own queue is bounded; only failures are reported back.

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

from fingerprint.adapters.kafka import base
from fingerprint.adapters.kafka.confluent_connection import (
    ConnectionFailure,
    check_connection,
    librdkafka_options,
    translate_librdkafka_errors,
)
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import DeliveryFailed, Headers, QueueFull
from fingerprint.core.settings import Kafka


class ConfluentProducer(base.BaseProducer):
    """A `message_stream.Producer`. Keys are hashed with murmur2, as Java and kafka-python do, not with librdkafka's own CRC32."""

    def __init__(self, settings: Kafka):
        super().__init__(settings)
        self._failure: KafkaError | None = None
        self._known_topics: set[str] = set()
        failure = ConnectionFailure()
        with translate_librdkafka_errors(settings):
            self._client = confluent_kafka.Producer(_options(settings) | {"error_cb": failure.on_error})
            check_connection(self._client, settings, failure)

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> None:
        """Accept a message. Raise QueueFull, DeliveryFailed; FingerprintError if it is too large or there is no such topic.

        A loop of our own instead of `stamina`, because a full queue empties only while librdkafka is polled.
        """
        if topic not in self._known_topics:
            self.partition_count(topic)
        deadline = time.monotonic() + base.MAX_BLOCK_MS / 1000
        while not self._enqueue(topic, value, key, headers):
            if time.monotonic() > deadline:
                raise QueueFull(f"{base.BUFFER_MEMORY:,} bytes are in flight and do not arrive")
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

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions. Raise FingerprintError without such a topic, or without an answer in time.

        It is also called before the first message, because librdkafka accepts messages for a topic that does not exist.
        """
        with translate_librdkafka_errors(self._settings):
            metadata = self._client.list_topics(topic, timeout=self._settings.request_timeout_seconds)
        found = metadata.topics[topic]
        if found.error is not None:
            raise base.no_such_topic(topic)
        self._known_topics.add(topic)
        return len(found.partitions)

    def _on_delivery(self, error: KafkaError | None, _: Any) -> None:
        self._failure = self._failure or error

    def _raise_failure(self) -> None:
        self._client.poll(0)
        if self._failure is not None:
            raise DeliveryFailed(self._failure.str())

    def flush(self, timeout_seconds: float | None = None) -> None:
        """Wait until all messages are acknowledged. Raise DeliveryFailed if not in time (default: delivery_timeout_ms)."""
        left = self._client.flush(
            self._settings.delivery_timeout_seconds if timeout_seconds is None else timeout_seconds
        )
        self._raise_failure()
        if left:
            raise DeliveryFailed(f"{left} messages have not arrived")

    def _close_client(self) -> None:
        self._client.purge()


def _options(settings: Kafka) -> dict[str, Any]:
    return {
        **librdkafka_options(settings),
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "compression.type": settings.compression_type,
        "linger.ms": settings.linger_ms,
        "request.timeout.ms": base.producer_request_timeout_ms(settings),
        "queue.buffering.max.kbytes": max(base.BUFFER_MEMORY >> 10, 1),
        "message.max.bytes": settings.max_request_size,
        "delivery.timeout.ms": settings.delivery_timeout_ms,
        "delivery.report.only.error": True,
        "allow.auto.create.topics": False,
    }
