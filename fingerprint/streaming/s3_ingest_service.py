"""The service behind `fingerprint ingest --sqs`: read S3 notifications from a queue, and key the records of their objects.

A notification is deleted from the queue only when all records of its objects have been acknowledged. One whose objects cannot be
read for now waits in the queue, as often and as long as the queue keeps it (`redelivery`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np

from fingerprint.core.errors import FingerprintError, ObjectNotFound, Unavailable
from fingerprint.core.log import get_logger
from fingerprint.core.ports.message_stream import DeliveryFailed, Message, Partition, Producer
from fingerprint.core.ports.object_store import MessageQueue, ObjectStore, ReceivedMessage
from fingerprint.core.ports.topics import DEAD_LETTER_SUFFIX
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Settings
from fingerprint.sources import s3_notifications
from fingerprint.sources.arrival import wall_clock_ms
from fingerprint.sources.s3_notifications import S3Object
from fingerprint.streaming.backpressure import RetryingProducer
from fingerprint.streaming.event_messages import PartitionCount
from fingerprint.streaming.lag_monitor import POLL_INTERVAL_SECONDS, LagAge
from fingerprint.streaming.metrics import S3IngestMetrics
from fingerprint.streaming.redelivery import (
    MAX_LOST_RECEIVES,
    SUSPECT_RECEIVES,
    isolate_redelivered,
    lost_receives,
    wait_seconds,
)
from fingerprint.streaming.rekeying import DeadLetterLimit, dead_letter
from fingerprint.streaming.s3_objects import ObjectAbandoned, S3ObjectReader
from fingerprint.streaming.service import PollingService

T = TypeVar("T")

log = get_logger("fingerprint.ingest")


class ReadErrors:
    """Reasons why parts of a notification's objects could not be read: the first one, and their number."""

    def __init__(self) -> None:
        self.first, self.count = "", 0

    def add(self, reason: str, count: int = 1) -> None:
        """Count a reason, and keep it if it is the first."""
        self.first, self.count = self.first or printable(reason), self.count + count

    def stop(self, reason: str) -> None:
        """Put the reason why reading ended early before all other reasons, because records are missing."""
        first = f" (the first: {self.first})" if self.first else ""
        self.first, self.count = printable(reason) + first, self.count + 1


class S3IngestService(PollingService):
    """Receive, read, send and delete, batch after batch."""

    log = log

    def __init__(
        self,
        queue: MessageQueue,
        objects: ObjectStore,
        producer: Producer,
        settings: Settings,
        metrics: S3IngestMetrics,
    ) -> None:
        super().__init__(metrics)
        self.queue, self.objects, self.producer = queue, objects, producer
        self.settings, self.metrics = settings, metrics
        self.object_reader = S3ObjectReader(
            settings, partitions=PartitionCount(producer, settings.kafka.events_topic)
        )
        self.limit = DeadLetterLimit(settings.ingest)
        self.sender = RetryingProducer(
            producer, settings.kafka.delivery_timeout_seconds, on_full=metrics.pauses.inc
        )
        self.dead_topic = settings.kafka.raw_topic + DEAD_LETTER_SUFFIX
        self.queue_partition = Partition(queue.name, 0)
        self.once, self.deferred = False, set[str]()  # ids of notifications left in the queue, with `once`
        self.limit_reached: str | None = None  # the reason of the last dead letter
        self.queue_problem: str | None = "has not asked the queue yet"
        self.last_lag, self.lag_age = time.monotonic(), LagAge()

    def run(self, stop_requested: Callable[[], bool], once: bool = False) -> dict[str, Any]:
        """Run until a stop is requested, or with `once` until no notification is left that can be read; return the figures.

        Raise FingerprintError if dead letters reach the limit or the producer is full for too long, and DeliveryFailed. In these
        cases, too, only notifications are deleted whose records were acknowledged.
        """
        started, self.once = time.monotonic(), once
        while not stop_requested():
            news = self.run_once(stop_requested)
            if once and not news and not self.queue_problem:
                break
        return self._report_run(started)

    def run_once(self, stop_requested: Callable[[], bool]) -> bool:
        """Receive notifications once and process them; return whether one of them was not deferred before."""
        taken: list[ReceivedMessage] = self._call_queue(self.queue.receive) or []
        self.lag_age.observe([each.message for each in taken])
        news = any(each.id not in self.deferred for each in taken)
        try:
            for each in isolate_redelivered(taken):
                with self.metrics.batch_seconds.time():
                    done = self._process_batch(each, stop_requested)
                    self.producer.flush()
                    self._delete(done)
        except (FingerprintError, DeliveryFailed):  # this worker ends, but no notification killed it
            with suppress(FingerprintError):
                self._make_wait(taken)
            raise
        self._update_status()
        if self.limit_reached:
            raise FingerprintError(self.limit.describe(self.queue.url, self.limit_reached))
        return news

    def not_ready(self) -> str | None:
        """Return why the program is not ready, None while it is."""
        return self.queue_problem

    def _process_batch(
        self, taken: list[ReceivedMessage], stop_requested: Callable[[], bool]
    ) -> list[ReceivedMessage]:
        """Return the notifications that may be deleted once all is acknowledged; the others are in the queue again."""
        done = []
        for number, each in enumerate(taken):
            if stop_requested() or self.limit_reached:
                self._put_back(taken[number:])
                break
            if self._process(each):
                done.append(each)
        return done

    def _process(self, taken: ReceivedMessage) -> bool:
        """Send the records of a notification's objects, or a dead letter; return False if it must be received again."""
        reasons = ReadErrors()
        lost = lost_receives(taken, wall_clock_ms(), self.settings.sqs.visibility_timeout_seconds)
        if lost > MAX_LOST_RECEIVES:
            reasons.add(
                f"received {taken.receive_count:,} times, and {lost:,} readers neither finished it nor put it back: it may "
                "kill its reader"
            )
            self._dead_letter(taken.message, reasons)
            return True
        try:
            notification = s3_notifications.parse_notification(taken.message.value or b"")
            for written in notification.objects:
                self._fetch(taken.message, written, reasons)
            self.metrics.count_notification(notification)
        except s3_notifications.NotificationError as error:
            reasons.add(str(error))
        except Unavailable as error:
            self._defer(taken, str(error))
            return False
        self._dead_letter(taken.message, reasons)
        return True

    def _fetch(self, notification: Message, written: S3Object, reasons: ReadErrors) -> None:
        if not self.settings.sqs.allows_bucket(written.bucket):
            reasons.add(f"{written.url}: sqs.allowed_buckets does not name its bucket")
            return
        try:
            for batch in self.object_reader.read(notification, written, self.objects.read(*written)):
                for each in batch.records:
                    self.sender.send(self.settings.kafka.events_topic, each)
                for reject in batch.rejects[:1]:
                    where = f"{written.url} {reject.position}".rstrip()
                    reasons.add(f"{reject.reason} ({where})", sum(each.count for each in batch.rejects))
                self.metrics.count_object_batch(batch)
                self.last_iteration = time.monotonic()
            self.metrics.objects.inc()
        except ObjectNotFound as error:
            reasons.add(str(error))
        except ObjectAbandoned as error:
            reasons.stop(str(error))

    def _dead_letter(self, notification: Message, reasons: ReadErrors) -> None:
        dead = reasons.count > 0
        if dead:
            letter = dead_letter(
                notification, reasons.first, reasons.count, self.settings.kafka.max_request_size
            )
            self.sender.send(self.dead_topic, letter)
            self.metrics.dead.inc()
            log.warning("dead letter", queue=self.queue.name, reason=reasons.first)
        if self.limit.exceeded_at(np.array([dead])) is not None:
            self.limit_reached = reasons.first

    def _defer(self, taken: ReceivedMessage, reason: str) -> None:
        """Leave a notification in the queue until its wait is over."""
        self._make_wait([taken])
        self.metrics.deferred.inc()
        log.warning("notification left in the queue", id=taken.id, reason=reason)
        if self.once:
            self.deferred.add(taken.id)

    def _put_back(self, left: Sequence[ReceivedMessage]) -> None:
        """Return unprocessed notifications to the queue: at once, or after a wait for those received often."""
        fresh = [each for each in left if each.receive_count < SUSPECT_RECEIVES]
        self._call_queue(self.queue.return_to_queue, fresh)
        self._make_wait([each for each in left if each.receive_count >= SUSPECT_RECEIVES])

    def _make_wait(self, left: Sequence[ReceivedMessage]) -> None:
        for each in left:
            seconds = wait_seconds(each.receive_count, self.settings.sqs.visibility_timeout_seconds)
            self._call_queue(self.queue.hide, [each], seconds)

    def _delete(self, done: list[ReceivedMessage]) -> None:
        """Delete notifications. One that cannot be deleted now is received again; its repeats are dropped by id."""
        lost = self._call_queue(self.queue.delete, done) if done else 0
        self.metrics.lost.inc(len(done) if lost is None else lost)
        self.metrics.messages.inc(len(done))

    def _call_queue(self, what: Callable[..., T], *arguments: Any) -> T | None:
        """Call the queue; return None if it does not answer. The client waits between its attempts."""
        try:
            answer = what(*arguments)
        except Unavailable as error:
            self.queue_problem = f"the queue does not answer: {error}"
            log.warning(self.queue_problem)
            return None
        self.queue_problem = None
        return answer

    def _update_status(self) -> None:
        self.last_iteration = time.monotonic()
        self.metrics.set_watermarks({self.queue_partition: self.object_reader.watermarks.low_watermark})
        if self.last_iteration - self.last_lag > POLL_INTERVAL_SECONDS:
            self.last_lag = self.last_iteration
            depth = self._call_queue(self.queue.approximate_depth)
            if depth is not None:
                lag = {self.queue_partition: depth}
                self.lag_age.update(lag)
                self.metrics.set_lag(lag, self.lag_age)
