"""The service behind `fingerprint ingest`: read the raw topic, key its records by principal, write them to the events topic.

Messages that cannot be read become dead letters. All messages are acknowledged before the positions are committed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports.message_stream import (
    Consumer,
    Message,
    Partition,
    PartitionNotOwned,
    Producer,
    RebalanceInProgress,
    next_offsets,
)
from fingerprint.core.ports.topics import DEAD_LETTER_SUFFIX
from fingerprint.core.settings import Settings
from fingerprint.streaming.backpressure import PausingProducer
from fingerprint.streaming.event_messages import PartitionCount
from fingerprint.streaming.metrics import IngestMetrics
from fingerprint.streaming.poison import POISON_REASON
from fingerprint.streaming.rekeying import DeadLetterLimit, RekeyedBatch, Rekeyer, letter_origin
from fingerprint.streaming.service import POLL_SECONDS, ConsumerService

log = get_logger("fingerprint.ingest")


class IngestService(ConsumerService):
    """Read, write and commit, batch after batch. A partition's watermark lives as long as its assignment.

    A run raises FingerprintError if dead letters reach the limit or the producer is full for too long, and DeliveryFailed. In
    these cases, too, only positions are committed whose messages were written.
    """

    log = log

    def __init__(
        self, consumer: Consumer, producer: Producer, settings: Settings, metrics: IngestMetrics
    ) -> None:
        super().__init__(consumer, settings.kafka.raw_topic, settings.kafka, metrics)
        self.producer, self.settings, self.metrics = producer, settings, metrics
        self.record_reader = Rekeyer(
            settings, partitions=PartitionCount(producer, settings.kafka.events_topic)
        )
        self.limit = DeadLetterLimit(settings.ingest)
        self.topic = settings.kafka.events_topic
        self.dead_topic = settings.kafka.raw_topic + DEAD_LETTER_SUFFIX
        self.pausing_producer = PausingProducer(
            producer, settings.kafka.delivery_timeout_seconds, self.pausable_consumer, self.lag_monitor
        )

    def run_once(self, seconds: float) -> list[Message]:
        """Poll once and process what comes; return those messages."""
        messages = self.pausable_consumer.poll(seconds)
        self.lag_monitor.observe(messages)
        for polled, is_poison in self.poison_guard.batches(messages):
            read = (
                [self.record_reader.reject(polled[0], POISON_REASON)]
                if is_poison
                else self.record_reader.rekey(polled)
            )
            for batch in read:
                with self.metrics.batch_seconds.time():
                    self._write(batch, polled)
        self.pausable_consumer.resume()
        self._update_status()
        return messages

    def assigned(self, partitions: Collection[Partition]) -> None:
        """Begin to read partitions."""
        self.joined = True
        self.poison_guard.forget(partitions)
        log.info("assigned", partitions=sorted(each.label for each in partitions))

    def revoked(self, partitions: Collection[Partition]) -> None:
        """Drop what is kept of partitions."""
        self.pausable_consumer.drop_backlog(partitions)
        self.poison_guard.forget(partitions)
        self.record_reader.forget_partitions(partitions)
        self.metrics.remove_partitions(partitions)
        log.info("revoked", partitions=sorted(each.label for each in partitions))

    def not_ready(self) -> str | None:
        """Return why the program is not ready, None while it is."""
        return self.lag_monitor.problem() if self.joined else "has not joined the group yet"

    def _write(self, batch: RekeyedBatch, messages: list[Message]) -> None:
        """Write a batch, wait for the acknowledgement, then commit: after a crash before the commit, all is read again."""
        dead = np.zeros(batch.completed_until - batch.begin, bool)
        dead[batch.dead_letter_sources - batch.begin] = True
        last = self.limit.exceeded_at(dead)
        if last is not None:
            batch = batch.truncated_at(batch.begin + last + 1)
        self.pausing_producer.send_all(self.topic, batch.records)
        self.pausing_producer.send_all(self.dead_topic, batch.dead_letters)
        with self.lag_monitor.awaiting_broker():
            self.producer.flush()
            self._commit(messages[batch.begin : batch.completed_until])
        self.metrics.count_batch(batch)
        if batch.dead_letters:
            log.warning(
                "dead letters", letters=len(batch.dead_letters), **letter_origin(batch.dead_letters[0])
            )
        if last is not None:
            reason = letter_origin(batch.dead_letters[-1])["reason"]
            raise FingerprintError(self.limit.describe(self.settings.kafka.raw_topic, reason))

    def _commit(self, messages: list[Message]) -> None:
        """Commit the partitions that are still owned. The next owner of others reads them again; repeats are dropped by id."""
        offsets = next_offsets(messages)
        while not self._committed(offsets):
            self.pausable_consumer.poll_to_backlog(POLL_SECONDS)

    def _committed(self, offsets: Mapping[Partition, int]) -> bool:
        """Try to commit; return False during a rebalance, after which the caller polls and tries again."""
        owned = {each: offsets[each] for each in offsets.keys() & self.consumer.assignment()}
        try:
            if owned:
                self.consumer.commit(owned)
                self.poison_guard.committed(owned)
        except RebalanceInProgress:
            return False
        except PartitionNotOwned:
            owned = {}
        if len(owned) < len(offsets):
            self.metrics.commits_refused.inc()
            log.warning("not all committed: partitions have another owner")
        return True

    def _update_status(self) -> None:
        self.metrics.set_watermarks(self.record_reader.watermarks)
        if self.joined and (lag := self.lag_monitor.poll()) is not None:
            self.metrics.set_lag(lag, self.lag_monitor.lag_age)
