"""Publisher of alerts, votes, feed gaps and dead letters: to the alert store first, then to the topics, and waiting for both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.alerting import messages
from fingerprint.core.alert import CredentialIssue, Reject
from fingerprint.core.case import ProgramStatus, ThresholdOverride
from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports.checkpoint_store import CheckpointStore
from fingerprint.core.ports.clock import Clock
from fingerprint.core.ports.message_stream import Consumer, Message, Partition, Producer
from fingerprint.core.ports.store import Store
from fingerprint.core.ports.topics import DEAD_LETTER_SUFFIX
from fingerprint.core.settings import Settings
from fingerprint.detection.votes import empty_votes
from fingerprint.pipeline import StepResult
from fingerprint.sources.arrival import FUTURE_REASON
from fingerprint.sources.decode import DecodedMessages
from fingerprint.streaming.backpressure import DependencyStatus, PausableConsumer, PausingProducer
from fingerprint.streaming.event_messages import MESSAGE_OVERHEAD, OutgoingMessage
from fingerprint.streaming.feed_gaps import FeedMonitor
from fingerprint.streaming.lag_monitor import LagMonitor
from fingerprint.streaming.metrics import StreamMetrics
from fingerprint.streaming.partition_processor import PartitionProcessor
from fingerprint.streaming.rekeying import DeadLetterBuilder, dead_letter

STORE_RETRY_SECONDS = 0.5  # between two attempts to reach the alert store

log = get_logger("fingerprint.stream")

T = TypeVar("T")


class StreamAdapters(NamedTuple):
    """Adapters of the stream."""

    consumer: Consumer
    producer: Producer
    store: Store
    checkpoints: CheckpointStore
    clock: Clock


class AlertPublisher:
    """Publishes results. When `flush` returns, all of them are stored and acknowledged."""

    def __init__(
        self,
        adapters: StreamAdapters,
        pausable_consumer: PausableConsumer,
        lag_monitor: LagMonitor,
        dependency_status: DependencyStatus,
        settings: Settings,
        metrics: StreamMetrics,
    ) -> None:
        self.store, self.producer, self.clock = adapters.store, adapters.producer, adapters.clock
        self.pausable_consumer = pausable_consumer
        self.lag_monitor = lag_monitor
        self.dependency_status = dependency_status
        self.settings, self.metrics, self.topics = settings, metrics, settings.kafka
        self.pausing_producer = PausingProducer(
            adapters.producer, settings.kafka.delivery_timeout_seconds, pausable_consumer, lag_monitor
        )
        self.dead_letters = DeadLetterBuilder(settings.kafka.max_request_size)
        self.feed_monitor = FeedMonitor(adapters.store, settings)
        self.stop_requested: Callable[[], bool] = lambda: False

    def publish(
        self, step_results: Sequence[StepResult], credential_issues: Sequence[CredentialIssue] = ()
    ) -> None:
        """Publish the last version of each alert, the votes, and issued credentials (access keys that a session was given)."""
        alerts = list({alert.alert_id: alert for step in step_results for alert in step.alerts}.values())
        parts = [step.votes for step in step_results if len(step.votes)]
        votes = pd.concat(parts, ignore_index=True) if parts else empty_votes()
        if not alerts and not parts and not credential_issues:
            return
        self._retry_store(lambda: self.store.alerts.save(alerts, votes, credential_issues))
        self._send(
            self.topics.alerts_topic,
            messages.encode_alerts(alerts, self.topics.max_request_size - MESSAGE_OVERHEAD),
        )
        self._send(self.topics.votes_topic, messages.encode_votes(votes))
        self.metrics.count_published(alerts, votes)

    def threshold_override(self) -> ThresholdOverride | None:
        """Return the threshold override of the alert store, None without one."""
        return self._retry_store(self.store.thresholds.current)

    def save_heartbeat(self, heartbeat: ProgramStatus) -> None:
        """Write a heartbeat to the alert store."""
        self._retry_store(partial(self.store.heartbeats.save, heartbeat))

    def dead_letter(
        self, polled: Sequence[Message], decoded: DecodedMessages, future: NDArray[np.bool_]
    ) -> None:
        """Send to the dead letters the messages that cannot be read or have an event dated in the `future` (n,)."""
        rejects = list(decoded.rejects)
        rejects += [Reject("", str(number), FUTURE_REASON) for number in decoded.source[future].tolist()]
        letters, _ = self.dead_letters.build(polled, decoded, rejects)
        self.pausing_producer.send_all(self.topics.events_topic + DEAD_LETTER_SUFFIX, letters)
        self.metrics.dead.inc(len(letters))
        if letters:
            log.warning("dead letters", letters=len(letters), reason=rejects[0].reason)

    def dead_letter_unread(self, message: Message, reason: str) -> None:
        """Send a message to the dead letters without reading it."""
        self.pausing_producer.send_all(
            self.topics.events_topic + DEAD_LETTER_SUFFIX,
            [dead_letter(message, reason, 1, self.topics.max_request_size)],
        )
        self.metrics.dead.inc()

    def count_feeds(self, partition: Partition, processor: PartitionProcessor) -> None:
        """Save the counts of each feed in the intervals that have closed."""
        if due := self.feed_monitor.closed_counts(processor, self._now()):
            self._retry_store(partial(self.store.feeds.save_counts, partition, *due))

    def publish_feed_gaps(self, partitions: int) -> bool:
        """Look for feed gaps, publish them, and return whether there was anything to check.

        `partitions` is the events topic's number of partitions, 0 if unknown. Gaps go to their topic first: after a crash, a gap
        that is not in the store yet is found and published again.
        """
        check = partial(self.feed_monitor.check, self.topics.events_topic, partitions, self._now())
        found = self._retry_store(check)
        if found is None:
            return False
        self._send(self.topics.feed_gaps_topic, messages.encode_feed_gaps(found.to_publish))
        if found.to_publish:
            self.flush()
        self._retry_store(
            partial(self.store.feeds.save_gaps, found.changed, found.checked_until, found.delete_before)
        )
        self.metrics.silent_feeds.set(found.silent_feeds)
        return True

    def _now(self) -> int:
        return int(self.clock.now().timestamp())

    def flush(self) -> None:
        """Wait until all sent messages are acknowledged. Raise DeliveryFailed if one was not."""
        with self.lag_monitor.awaiting_broker():
            self.producer.flush()

    def _retry_store(self, call: Callable[[], T]) -> T:
        """Call the store, and repeat the call while it fails, at most for `database_timeout_seconds` or until a requested stop.

        It is a loop of our own instead of `stamina` because the consumer is polled between attempts, to keep its partitions.
        """
        deadline = time.monotonic() + self.settings.stream.database_timeout_seconds
        while True:
            try:
                result = call()
                break
            except FingerprintError as error:
                self.dependency_status.fail("database", str(error))
                if time.monotonic() > deadline or self.stop_requested():
                    raise
                self.pausable_consumer.pause()
                self.clock.sleep(STORE_RETRY_SECONDS)
        self.dependency_status.recover("database")
        self.pausable_consumer.resume()
        return result

    def _send(self, topic: str, keyed: Iterable[tuple[bytes, bytes]]) -> None:
        self.pausing_producer.send_all(topic, (OutgoingMessage(value, key, ()) for key, value in keyed))
