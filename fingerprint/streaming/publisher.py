"""Where what was found is said: the desk first, then the topics. Both are waited for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.alerting import messages
from fingerprint.core.alert import CredentialIssue, FingerprintError, Reject
from fingerprint.core.case import ProgramStatus, ThresholdOverride
from fingerprint.core.ports import AlertStore, CheckpointStore, Clock, Consumer, Message, Partition, Producer
from fingerprint.core.ports.topics import DEAD_LETTER_SUFFIX
from fingerprint.core.settings import Settings
from fingerprint.detection.scorer import empty_votes
from fingerprint.pipeline import StepResult
from fingerprint.sources.arrival import FUTURE_REASON
from fingerprint.sources.decode import DecodedMessages
from fingerprint.streaming.backpressure import PausableConsumer
from fingerprint.streaming.dependency_status import DependencyStatus
from fingerprint.streaming.feed_monitor import FeedMonitor
from fingerprint.streaming.lag_monitor import LagMonitor
from fingerprint.streaming.metrics import StreamMetrics
from fingerprint.streaming.partition_processor import PartitionProcessor
from fingerprint.streaming.rekeying import DeadLetterBuilder, OutgoingMessage, dead_letter
from fingerprint.streaming.retrying_producer import RetryingProducer

STORE_RETRY_SECONDS = 0.5  # between two tries to reach the desk

log = logging.getLogger("fingerprint.stream")

T = TypeVar("T")


class StreamAdapters(NamedTuple):
    """The doors of the stream."""

    consumer: Consumer
    producer: Producer
    store: AlertStore
    checkpoints: CheckpointStore
    clock: Clock


class AlertPublisher:
    """Says alerts, votes, notices and dead letters. What it has said is safe when `flush` returns."""

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
        self.pausable_consumer, self.lag_monitor, self.dependency_status = (
            pausable_consumer,
            lag_monitor,
            dependency_status,
        )
        self.settings, self.metrics, self.topics = settings, metrics, settings.kafka
        self.retrying_producer = RetryingProducer(
            adapters.producer, settings.kafka.delivery_timeout_seconds, self._on_queue_full
        )
        self.dead_letters = DeadLetterBuilder(settings.kafka.max_request_size)
        self.feed_monitor = FeedMonitor(adapters.store, settings)
        self.asked_to_end: Callable[[], bool] = lambda: False

    def publish(
        self, step_results: Sequence[StepResult], credential_issues: Sequence[CredentialIssue] = ()
    ) -> None:
        """Alerts, each as it stands last, votes, and who began which session."""
        alerts = list({alert.alert_id: alert for step in step_results for alert in step.alerts}.values())
        parts = [step.votes for step in step_results if len(step.votes)]
        votes = pd.concat(parts, ignore_index=True) if parts else empty_votes()
        if not alerts and not parts and not credential_issues:
            return
        self._retry_store(lambda: self.store.save(alerts, votes, credential_issues))
        self._send(self.topics.alerts_topic, messages.encode_alerts(alerts))
        self._send(self.topics.votes_topic, messages.encode_votes(votes))
        self.metrics.count_published(alerts, votes)

    def threshold_override(self) -> ThresholdOverride | None:
        """What was chosen at the desk to hold events to."""
        return self._retry_store(self.store.threshold_override)

    def save_heartbeat(self, heartbeat: ProgramStatus) -> None:
        """How the program is, to the desk."""
        self._retry_store(partial(self.store.save_heartbeat, heartbeat))

    def dead_letter(
        self, polled: Sequence[Message], piece: DecodedMessages, future: NDArray[np.bool_]
    ) -> None:
        """What cannot be read, and what is dated in the `future` (n,), to the dead letters."""
        rejects = list(piece.rejects)
        reason = FUTURE_REASON.format(seconds=self.settings.reading.max_future_seconds)
        rejects += [Reject("", str(number), reason) for number in piece.source[future].tolist()]
        letters, _ = self.dead_letters.build(polled, piece, rejects)
        self._send_all(self.topics.events_topic + DEAD_LETTER_SUFFIX, letters)
        self.metrics.dead.inc(len(letters))
        if letters:
            log.warning(
                "dead letters", extra={"fields": {"letters": len(letters), "reason": rejects[0].reason}}
            )

    def dead_letter_unread(self, message: Message, reason: str) -> None:
        """A message that is not to be read, to the dead letters."""
        self._send_all(
            self.topics.events_topic + DEAD_LETTER_SUFFIX,
            [dead_letter(message, reason, 1, self.topics.max_request_size)],
        )
        self.metrics.dead.inc()

    def count_feeds(self, partition: Partition, processor: PartitionProcessor) -> None:
        """What came of each feed in the intervals that have closed, to the desk."""
        if due := self.feed_monitor.closed_counts(processor, self._now()):
            self._retry_store(partial(self.store.save_feed_counts, partition, *due))

    def publish_feed_gaps(self) -> bool:
        """Whether there was anything to look at. Notices go to their topic first: what is not on the desk after a crash is
        found and told again."""
        look = self._retry_store(partial(self.feed_monitor.check, self.topics.events_topic, self._now()))
        if look is None:
            return False
        self._send(self.topics.feed_gaps_topic, messages.encode_feed_gaps(look.to_publish))
        if look.to_publish:
            self.flush()
        self._retry_store(
            partial(self.store.save_feed_gaps, look.changed, look.checked_until, look.delete_before)
        )
        self.metrics.silent_feeds.set(look.silent_feeds)
        return True

    def _now(self) -> int:
        return int(self.clock.now().timestamp())

    def flush(self) -> None:
        """Everything that was said has arrived; Undelivered if not."""
        with self.lag_monitor.awaiting_broker():
            self.producer.flush()

    def _retry_store(self, call: Callable[[], T]) -> T:
        """A desk that is away is waited for, and the group is told meanwhile that we live."""
        deadline = time.monotonic() + self.settings.stream.database_timeout_seconds
        while True:
            try:
                answer = call()
                break
            except FingerprintError as error:
                self.dependency_status.fail("database", str(error))
                if time.monotonic() > deadline or self.asked_to_end():
                    raise
                self.pausable_consumer.pause()
                self.clock.sleep(STORE_RETRY_SECONDS)
        self.dependency_status.recover("database")
        self.pausable_consumer.resume()
        return answer

    def _send(self, topic: str, keyed: Iterable[tuple[bytes, bytes]]) -> None:
        self._send_all(topic, (OutgoingMessage(value, key, ()) for key, value in keyed))

    def _send_all(self, topic: str, outgoing: Iterable[OutgoingMessage]) -> None:
        for each in outgoing:
            self.retrying_producer.send(topic, each)
        if self.pausable_consumer.paused_partitions:
            self.lag_monitor.response_received()
        self.pausable_consumer.resume()

    def _on_queue_full(self) -> None:
        """Too much is on its way: the broker owes us its answers."""
        self.lag_monitor.request_sent()
        self.pausable_consumer.pause()
