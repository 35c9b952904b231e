"""Sending through kafka-python, which takes whatever it is given: here what is in flight is counted and bounded.

Example:
    >>> producer = KafkaProducer(settings.kafka)
    >>> producer.send("fingerprint.events", record, key=principal)
    >>> producer.flush()
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any

import kafka
from kafka import errors

from fingerprint.adapters.kafka import limits
from fingerprint.adapters.kafka.kafka_python import fetch_partition_count, translate_connection_errors
from fingerprint.adapters.kafka.kafka_python_settings import kafka_python_options
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import DeliveryFailed, Headers, Producer, QueueFull
from fingerprint.core.settings import Kafka

MESSAGE_OVERHEAD_BYTES = 400  # bytes that a message in flight costs beside its own: its future and its place


class KafkaPythonProducer(Producer):
    """See `ports.Producer`; but a header without a value becomes an empty one, for kafka-python sends no others.

    What is in flight is a queue in the order of sending; what has landed leaves it in front.
    """

    def __init__(self, settings: Kafka):
        self._settings = settings
        self._in_flight: deque[tuple[Any, int]] = deque()
        self._in_flight_bytes = 0
        self._failure: Exception | None = None
        self._closed = False
        with translate_connection_errors(settings):
            self._client = kafka.KafkaProducer(**_options(settings))

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> None:
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

    def _require_topic(self, topic: str) -> None:
        """The client does not tell a topic that is not there from a broker that is away: ask the broker."""
        with suppress(errors.KafkaError):
            fetch_partition_count(topic, self._settings.model_copy(update={"request_timeout_ms": 1_000}))

    def _wait_for_capacity(self, size: int) -> None:
        """Full if there is none in time. One message is always let through, however large."""
        self._collect_acknowledged()
        while self._in_flight and self._in_flight_bytes + size > limits.BUFFER_MEMORY:
            try:
                self._in_flight[0][0].get(timeout=limits.MAX_BLOCK_MS / 1000)
            except errors.KafkaTimeoutError:
                if not self._in_flight[0][0].is_done:
                    raise QueueFull(
                        f"{self._in_flight_bytes:,} bytes are in flight and do not arrive"
                    ) from None
            except errors.KafkaError:
                pass  # its future says so, and `_land` reads it
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
        try:
            self._client.flush(
                self._settings.delivery_timeout_seconds if timeout_seconds is None else timeout_seconds
            )
        except errors.KafkaTimeoutError as error:
            raise DeliveryFailed(f"{len(self._in_flight)} messages have not arrived: {error}") from error
        self._collect_acknowledged()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self.flush(self._settings.request_timeout_seconds)
        finally:
            self._close_client()

    def _close_client(self) -> None:
        try:
            self._client.close(timeout=1)
        except errors.KafkaTimeoutError:
            self._client._sender.force_close()  # close() gives up before it stops its thread


def _options(settings: Kafka) -> dict[str, Any]:
    return {
        **kafka_python_options(settings),
        "acks": "all",
        "enable_idempotence": True,
        "compression_type": None if settings.compression_type == "none" else settings.compression_type,
        "linger_ms": settings.linger_ms,
        "batch_size": 256 << 10,
        "max_block_ms": limits.MAX_BLOCK_MS,
        "max_request_size": settings.max_request_size,
        "delivery_timeout_ms": settings.delivery_timeout_ms,
        "request_timeout_ms": min(30_000, max(settings.delivery_timeout_ms - settings.linger_ms, 1)),
        "allow_auto_create_topics": False,
    }
