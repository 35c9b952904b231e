"""The common base of the two Kafka clients: bounds, the fetch buffer, positions, retries, and error messages.

Example:
    >>> class AnotherConsumer(BaseConsumer):
    ...     def _fetch(self, timeout_seconds: float, max_messages: int) -> None:
    ...         self._buffer.add(fetched_messages)

`confluent*.py` and `kafka_python*.py` add the calls of their library. Workarounds for faults of a library are in
`confluent_compat.py` and `kafka_python_compat.py`.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np

from fingerprint.adapters.retries import RETRY_PAUSE_SECONDS, retry_steadily
from fingerprint.core.errors import FingerprintError, ServerUnavailable
from fingerprint.core.ports.message_stream import Consumer, Message, Offsets, Partition, Producer
from fingerprint.core.ports.topics import (
    MAX_MESSAGE_BYTES_CONFIG,
    RETENTION_CONFIG,
    TIMESTAMP_TYPE_CONFIG,
    TopicAdmin,
    TopicSpec,
)
from fingerprint.core.settings import Kafka

# Bounds that no deployment needs to change, under Kafka's names. The clients read them when they open.
FETCH_MAX_BYTES = 64 << 20
"""Largest size of one poll (fetch.max.bytes; queued.max.messages.kbytes of librdkafka)."""
MAX_PARTITION_FETCH_BYTES = 8 << 20
"""Bytes fetched of one partition at a time (max.partition.fetch.bytes)."""
FETCH_MAX_WAIT_MS = 100
"""Milliseconds that a broker waits for messages (fetch.max.wait.ms): other requests wait behind a fetch."""
BUFFER_MEMORY = 64 << 20
"""Largest number of bytes that were sent and are not yet acknowledged (buffer.memory)."""
MAX_BLOCK_MS = 1_000
"""Milliseconds that a send waits for room in the buffer (max.block.ms)."""
METADATA_MAX_AGE_MS = 30_000
"""Milliseconds after which topics and their partitions are looked up again (metadata.max.age.ms)."""
RECONNECT_BACKOFF_MAX_MS = 1_000
"""Longest pause in milliseconds between two tries to connect (reconnect.backoff.max.ms)."""
PLAIN_LISTENER_SIGNS = (
    "EOF occurred in violation of protocol",
    "PLAINTEXT broker listener",
    "SSL connection closed by peer",
)
"""Words of the libraries for a TLS handshake with a listener that has no TLS."""

_Result = TypeVar("_Result")


class FetchBuffer:
    """Messages that were fetched and not yet returned, in the order of fetching, so that a poll keeps its bounds.

    Messages of a paused partition stay. Messages of a partition that was revoked or sought are dropped.

    Example:
        >>> buffer = FetchBuffer()
        >>> buffer.add(fetched)
        >>> batch = buffer.pop(max_messages=20_000, max_bytes=64 << 20)
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, messages: Sequence[Message]) -> None:
        """Append messages."""
        self._messages += messages

    def discard_partitions(self, partitions: Collection[Partition]) -> None:
        """Drop the messages of these partitions."""
        self._messages = [message for message in self._messages if message.source_partition not in partitions]

    def pop(self, max_messages: int, max_bytes: int, paused: Collection[Partition] = ()) -> list[Message]:
        """Remove and return the first messages of partitions that are not paused.

        The result has at most `max_messages` and `max_bytes` of keys and values, but at least one message if there is one.
        """
        ready, rest = self._messages, []
        if paused:
            rest = [message for message in ready if message.source_partition in paused]
            ready = [message for message in ready if message.source_partition not in paused]
        sizes = [len(message.value or b"") + len(message.key or b"") for message in ready[:max_messages]]
        cut = max(int(np.searchsorted(np.cumsum(sizes), max_bytes, side="right")), 1)
        self._messages = ready[cut:] + rest
        return ready[:cut]

    def next_offsets(self) -> dict[Partition, int]:
        """Return the offset of the first buffered message of each partition that has one."""
        return {message.source_partition: message.offset for message in reversed(self._messages)}


class BaseConsumer(Consumer):
    """A consumer's book-keeping: buffered messages, paused partitions, first positions, retries and lag."""

    _client: Any  # the consumer of the library

    def __init__(self, settings: Kafka) -> None:
        self._settings = settings
        self._buffer = FetchBuffer()
        self._paused: set[Partition] = set()
        self._closed = False

    def assignment(self) -> frozenset[Partition]:
        """Return the partitions that this member owns now."""
        return frozenset() if self._closed else frozenset(to_partitions(self._client.assignment()))

    # --- calls of the library ---------------------------------------------------------------------------------------

    @abstractmethod
    def _fetch(self, timeout_seconds: float, max_messages: int) -> None:
        """Wait for messages and add them to the buffer."""

    @abstractmethod
    def _seek_client(self, partition: Partition, offset: int) -> None:
        """Move the library's own position."""

    @abstractmethod
    def _pause_client(self, partitions: Collection[Partition]) -> None:
        """Stop the fetching of these partitions."""

    @abstractmethod
    def _resume_client(self, partitions: Collection[Partition]) -> None:
        """Go on with the fetching of these partitions."""

    @abstractmethod
    def _fetch_end_offsets(
        self, partitions: Collection[Partition], timeout_seconds: float
    ) -> dict[Partition, int]:
        """Ask for the end offsets, for at most so many seconds."""

    @abstractmethod
    def _positions(
        self, partitions: Collection[Partition], timeout_seconds: float
    ) -> Mapping[Partition, int]:
        """Return the next offset that the library fetches; a partition without a position may be missing."""

    @abstractmethod
    def _is_transient(self, error: Exception) -> bool:
        """Return whether the same request may succeed in a moment: the broker has just started, or a leader has moved."""

    @abstractmethod
    def _translated_errors(self) -> AbstractContextManager[None]:
        """Raise the library's errors as those of the port."""

    # --- what both clients do ---------------------------------------------------------------------------------------

    def poll(
        self, timeout_seconds: float, max_messages: int | None = None, max_bytes: int | None = None
    ) -> list[Message]:
        """Return buffered messages, or else the messages that a fetch brings in time."""
        max_messages = max_messages or self._settings.max_poll_records
        max_bytes = max_bytes or FETCH_MAX_BYTES
        if ready := self._buffer.pop(max_messages, max_bytes, self._paused):
            return ready
        with self._translated_errors():
            self._fetch(timeout_seconds, max_messages)
        return self._buffer.pop(max_messages, max_bytes, self._paused)

    def seek(self, partition: Partition, offset: int) -> None:
        """Move the position of an assigned partition."""
        self._buffer.discard_partitions([partition])
        with self._translated_errors():
            self._seek_client(partition, offset)

    def pause(self, partitions: Collection[Partition]) -> None:
        """Hold these partitions back until they are resumed."""
        self._pause_client(partitions)
        self._paused |= set(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        """Return messages of these partitions again."""
        self._resume_client(partitions)
        self._paused -= set(partitions)

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        """Return the committed offset of each partition, None where there is none."""
        found = self.committed_metadata(partitions)
        return {each: found[each][0] if each in found else None for each in partitions}

    def end_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset that the next message of each partition will get."""
        return self._fetch_end_offsets(partitions, self._settings.request_timeout_seconds)

    def lag(self, timeout_seconds: float | None = None) -> dict[Partition, int]:
        """Return the number of messages of each assigned partition that `poll` has not returned yet."""
        patience = self._settings.request_timeout_seconds if timeout_seconds is None else timeout_seconds
        ends = self._fetch_end_offsets(self.assignment(), patience)
        buffered = self._buffer.next_offsets()
        with self._translated_errors():
            fetched = self._positions(ends.keys() - buffered.keys(), patience)
        return {each: end - buffered.get(each, fetched.get(each, end)) for each, end in ends.items()}

    def _first_positions(self, partitions: Collection[Partition], given: Offsets) -> dict[Partition, int]:
        """Return the positions to begin at: the given ones, else the committed ones, else the beginnings.

        Every partition has a position before anything is fetched, so that nothing is skipped silently.
        """
        open_ones = [each for each in partitions if each not in given]
        known = {each: offset for each, offset in self.committed(open_ones).items() if offset is not None}
        fresh = [each for each in open_ones if each not in known]
        return {**self.beginning_offsets(fresh), **known, **given}

    def _forget_partitions(self, partitions: Collection[Partition]) -> None:
        self._buffer.discard_partitions(partitions)
        self._paused -= set(partitions)

    def _with_retries(self, request: Callable[[], _Result], timeout_seconds: float | None = None) -> _Result:
        """Return the answer to a request that is tried again while it fails for a passing reason."""
        patience = self._settings.request_timeout_seconds if timeout_seconds is None else timeout_seconds
        with self._translated_errors():
            return retry_steadily(request, self._is_transient, patience)


class BaseProducer(Producer):
    """The life cycle of a producer: messages in flight are flushed before the library's client is closed."""

    def __init__(self, settings: Kafka) -> None:
        self._settings = settings
        self._closed = False

    @abstractmethod
    def _close_client(self) -> None:
        """Close the library's client, even with messages in flight."""

    def close(self) -> None:
        """Flush for at most request_timeout_ms and close; raise DeliveryFailed like `flush`."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush(self._settings.request_timeout_seconds)
        finally:
            self._close_client()


class BaseTopicAdmin(TopicAdmin):
    """Topics as the broker describes them: partitions and configs, joined."""

    def __init__(self, settings: Kafka) -> None:
        self._settings = settings

    @abstractmethod
    def _list_topics(self, names: Collection[str]) -> dict[str, tuple[int, int]]:
        """Return the numbers of partitions and of replicas of those topics that exist."""

    @abstractmethod
    def _read_configs(self, names: Collection[str]) -> Mapping[str, Callable[[str], str]]:
        """Return, by topic, a function from the name of a config to its value."""

    @abstractmethod
    def _translated_errors(self) -> AbstractContextManager[None]:
        """Raise the library's errors as those of the port."""

    def describe(self, names: Collection[str]) -> dict[str, TopicSpec]:
        """Return those topics that exist."""
        with self._translated_errors():
            sizes = self._list_topics(names)
            configs = self._read_configs(sizes)
        return {name: _topic_spec(name, *size, configs[name]) for name, size in sizes.items()}

    def _wait_for_metadata(self, known: Callable[[], bool], problem: str) -> None:
        """Wait until the broker knows of the controller's change. Raise ServerUnavailable with `problem` if it does not.

        A loop of our own instead of `stamina`: nothing fails here, a condition becomes true.
        """
        deadline = time.monotonic() + self._settings.request_timeout_seconds
        while not known():
            if time.monotonic() > deadline:
                raise ServerUnavailable(f"{problem}, and the broker does not know it yet")
            time.sleep(RETRY_PAUSE_SECONDS)


def _topic_spec(name: str, partitions: int, replicas: int, config: Callable[[str], str]) -> TopicSpec:
    return TopicSpec(
        name,
        partitions,
        replicas,
        int(config(RETENTION_CONFIG)),
        int(config(MAX_MESSAGE_BYTES_CONFIG)),
        config(TIMESTAMP_TYPE_CONFIG),
    )


def security_protocol(settings: Kafka) -> str:
    """Return security.protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    return ("SASL_" if settings.sasl_mechanism else "") + ("SSL" if settings.tls else "PLAINTEXT")


# --- errors, in the same words whichever client it is ---------------------------------------------------------------


def producer_request_timeout_ms(settings: Kafka) -> int:
    """Return how long a producer waits for one answer: less than the time to deliver a message, so that it can be sent again."""
    return min(settings.request_timeout_ms, max(settings.delivery_timeout_ms - settings.linger_ms, 1))


def messages_lost(what: str) -> FingerprintError:
    """Return the error for a position that the broker no longer has."""
    return FingerprintError(
        f"messages were lost: {what}; set kafka.auto_offset_reset = earliest to go on with what is left"
    )


def to_partitions(partitions: Collection[Any]) -> set[Partition]:
    """Return the partitions of either library, with `topic` and `partition`, as the port's Partition."""
    return {Partition(each.topic, each.partition) for each in partitions}


def no_such_topic(topic: str) -> FingerprintError:
    """Return the error for a topic that does not exist."""
    return FingerprintError(f"there is no topic {topic}: create it first")


def no_answer(settings: Kafka, timed_out: bool) -> ServerUnavailable:
    """Return the error for brokers that do not answer; without TLS or login, brokers that require it do not answer either."""
    where = ", ".join(settings.bootstrap_servers)
    reason = "it took too long" if timed_out else "the connection failed"
    is_secured = settings.tls and settings.sasl_mechanism
    security = "" if is_secured else "; or the listener wants a login or TLS: kafka.sasl_mechanism, kafka.tls"
    return ServerUnavailable(
        f"no broker answers at {where} ({reason}): start Kafka, or set kafka.bootstrap_servers{security}"
    )


def refused(settings: Kafka, reason: object) -> FingerprintError:
    """Return the error for a request that the broker refuses."""
    return FingerprintError(f"Kafka at {', '.join(settings.bootstrap_servers)} refuses: {reason}")


def not_let_in(settings: Kafka, reason: object) -> str:
    """Return the sentence for a login or a certificate that the other side does not accept."""
    sentence = f"Kafka at {', '.join(settings.bootstrap_servers)} does not let us in: {reason}"
    is_plain = settings.tls and any(each in sentence for each in PLAIN_LISTENER_SIGNS)
    return f"{sentence.rstrip('. ')}: is kafka.tls right for this port?" if is_plain else sentence


def not_ready(settings: Kafka, reason: object) -> ServerUnavailable:
    """Return the error for a broker that has just started: it answers but cannot do the work yet."""
    return ServerUnavailable(f"Kafka at {', '.join(settings.bootstrap_servers)} is not ready: {reason}")
