"""The producer through kafka-python, which takes any number of messages: here what is in flight is counted and bounded.

Example:
    >>> producer = KafkaPythonProducer(settings.kafka)
    >>> producer.send("fingerprint.events", record, key=principal)
    >>> producer.flush()
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any

import kafka
from kafka import errors

from fingerprint.adapters.kafka import base
from fingerprint.adapters.kafka.kafka_python_compat import close_producer
from fingerprint.adapters.kafka.kafka_python_connection import (
    fetch_partition_count,
    kafka_python_options,
    translate_connection_errors,
)
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import DeliveryFailed, Headers, QueueFull
from fingerprint.core.settings import Kafka

MESSAGE_OVERHEAD_BYTES = 400
"""Bytes that a message in flight costs beside its own: its future and its place."""


class KafkaPythonProducer(base.BaseProducer):
    """A `ports.message_stream.Producer`; but a header without a value becomes an empty one, for kafka-python sends no others.

    What is in flight is a queue in the order of sending; what was acknowledged leaves it in front.
    """

    def __init__(self, settings: Kafka):
        super().__init__(settings)
        self._in_flight: deque[tuple[Any, int]] = deque()
        self._in_flight_bytes = 0
        self._failure: Exception | None = None
        with translate_connection_errors(settings):
            self._client = kafka.KafkaProducer(**_options(settings))

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> None:
        """Take a message. QueueFull, DeliveryFailed; FingerprintError if it is too large or there is no such topic."""
        size = (
            MESSAGE_OVERHEAD_BYTES
            + len(value or b"")
            + len(key or b"")
            + sum(len(n) + len(v or b"") for n, v in headers)
        )
        self._wait_for_capacity(size)
        try:
            future = self._client.send(topic, value, key, [(name, data or b"") for name, data in headers])
        except errors.MessageSizeTooLargeError as error:
            raise FingerprintError(
                f"a message of {size:,} bytes is larger than kafka.max_request_size"
            ) from error
        except errors.KafkaTimeoutError as error:
            self._require_topic(topic)
            raise QueueFull(f"no word of topic {topic} in time: {error}") from error
        self._in_flight.append((future, size))
        self._in_flight_bytes += size

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions that keys are spread over. FingerprintError without such a topic, or an answer."""
        try:
            return len(self._client.partitions_for(topic) or ())
        except errors.KafkaError as error:
            raise FingerprintError(f"no word of topic {topic} in time: {error}") from error

    def _require_topic(self, topic: str) -> None:
        """Ask the broker: the client does not tell a topic that is not there from a broker that is away."""
        with suppress(errors.KafkaError):
            fetch_partition_count(topic, self._settings.model_copy(update={"request_timeout_ms": 1_000}))

    def _wait_for_capacity(self, size: int) -> None:
        """Raise QueueFull if there is no room in time. One message is always let through, however large."""
        self._collect_acknowledged()
        while self._in_flight and self._in_flight_bytes + size > base.BUFFER_MEMORY:
            oldest, _ = self._in_flight[0]
            try:
                oldest.get(timeout=base.MAX_BLOCK_MS / 1000)
            except errors.KafkaTimeoutError:
                if not oldest.is_done:
                    raise QueueFull(
                        f"{self._in_flight_bytes:,} bytes are in flight and do not arrive"
                    ) from None
            except errors.KafkaError:
                pass  # its future has the error, and `_collect_acknowledged` reads it
            self._collect_acknowledged()

    def _collect_acknowledged(self) -> None:
        while self._in_flight and self._in_flight[0][0].is_done:
            future, size = self._in_flight.popleft()
            self._in_flight_bytes -= size
            if future.exception is not None and self._failure is None:
                self._failure = future.exception
        if self._failure is not None:
            raise DeliveryFailed(str(self._failure)) from self._failure

    def flush(self, timeout_seconds: float | None = None) -> None:
        """Wait until all messages are acknowledged. DeliveryFailed if not, or not in time (default: delivery_timeout_ms)."""
        try:
            self._client.flush(
                self._settings.delivery_timeout_seconds if timeout_seconds is None else timeout_seconds
            )
        except errors.KafkaTimeoutError as error:
            raise DeliveryFailed(f"{len(self._in_flight)} messages have not arrived: {error}") from error
        self._collect_acknowledged()

    def _close_client(self) -> None:
        close_producer(self._client)


def _options(settings: Kafka) -> dict[str, Any]:
    return {
        **kafka_python_options(settings),
        "acks": "all",
        "enable_idempotence": True,
        "compression_type": None if settings.compression_type == "none" else settings.compression_type,
        "linger_ms": settings.linger_ms,
        "batch_size": 256 << 10,
        "max_block_ms": base.MAX_BLOCK_MS,
        "max_request_size": settings.max_request_size,
        "delivery_timeout_ms": settings.delivery_timeout_ms,
        "request_timeout_ms": base.producer_request_timeout_ms(settings),
        "allow_auto_create_topics": False,
    }
