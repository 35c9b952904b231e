"""Raw topic -> records under their principal, and dead letters: poll, read, send, flush, commit. One page."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry

from fingerprint.domain import FingerprintError
from fingerprint.ingesting import Batch, Ingesting, Limit, Outgoing
from fingerprint.ports import Consumer, Full, Message, NotOwner, Partition, Producer, Undelivered
from fingerprint.settings import Settings
from pipelines.ingest_metrics import IngestMetrics
from pipelines.until_end import UntilEnd

POLL_SECONDS = 0.5
LAG_SECONDS = 5.0  # between two looks at the lag

log = logging.getLogger("fingerprint.ingest")


def ingest(
    consumer: Consumer,
    producer: Producer,
    settings: Settings,
    metrics: IngestMetrics | None = None,
    stop: Callable[[], bool] = lambda: False,
    once: bool = False,
) -> dict[str, Any]:
    """Read the raw topic until `stop`, or with `once` until where it ended at the start; the figures of
    `ingest --json`.

    What is committed was written before. Raises FingerprintError when dead letters reach the limit, and when what was
    sent does not arrive; then nothing of the batch is committed that was not written.
    """
    started = time.monotonic()
    ingesting = Ingest(consumer, producer, settings, metrics or IngestMetrics(CollectorRegistry()))
    consumer.subscribe([settings.kafka.raw], assigned=ingesting.assigned, revoked=ingesting.revoked)
    end = UntilEnd(consumer)
    while not stop():
        end.saw(ingesting.turn(POLL_SECONDS))
        if once and end.reached():
            break
    figures = ingesting.figures() | {"seconds": round(time.monotonic() - started, 3)}
    log.info("done", extra={"fields": figures})
    return figures


class Ingest:
    """One batch after the other. A partition's watermark lives as long as its assignment."""

    def __init__(
        self, consumer: Consumer, producer: Producer, settings: Settings, metrics: IngestMetrics
    ) -> None:
        self.consumer, self.producer, self.settings, self.metrics = consumer, producer, settings, metrics
        self.reading = Ingesting(settings)
        self.limit = Limit(settings.ingest)
        self.topic = settings.kafka.events
        self.dead_topic = settings.kafka.raw + settings.kafka.dlq_suffix
        self.backlog: list[Message] = []  # came while the consumer was to be silent
        self.joined = False
        self.last_turn = self.last_lag = time.monotonic()

    def turn(self, seconds: float) -> list[Message]:
        """One poll and all that follows from it; the messages that were dealt with."""
        messages = self.backlog or self.consumer.poll(seconds)
        self.backlog = []
        for batch in self.reading.read(messages):
            with self.metrics.batch_seconds.time():
                self._write(batch, messages)
        self._look_around()
        return messages

    def assigned(self, partitions: Collection[Partition]) -> None:
        self.joined = True
        log.info("assigned", extra={"fields": {"partitions": sorted(map(_place, partitions))}})

    def revoked(self, partitions: Collection[Partition]) -> None:
        self.reading.forget(partitions)
        self.metrics.forget(partitions)
        log.info("revoked", extra={"fields": {"partitions": sorted(map(_place, partitions))}})

    def not_ready(self) -> str | None:
        return None if self.joined else "has not joined the group yet"

    def not_alive(self) -> str | None:
        still = time.monotonic() - self.last_turn
        return f"stands still for {still:.0f} s" if still > self.settings.health.stalled_seconds else None

    def figures(self) -> dict[str, Any]:
        return self.metrics.figures()

    def _write(self, batch: Batch, messages: list[Message]) -> None:
        """Written and acknowledged, then committed; after a commit nothing can be lost, before it all comes again."""
        dead = np.zeros(batch.end - batch.begin, bool)
        dead[batch.dead_from - batch.begin] = True
        last = self.limit.reached(dead)
        if last is not None:
            batch = batch.until(batch.begin + last + 1)
        self._send(self.topic, batch.records)
        self._send(self.dead_topic, batch.dead)
        self._flush()
        self._commit(messages[batch.begin : batch.end])
        self.metrics.count(batch)
        if batch.dead:
            log.warning("dead letters", extra={"fields": _of_dead(batch)})
        if last is not None:
            raise FingerprintError(self._stopped(batch))

    def _send(self, topic: str, outgoing: list[Outgoing]) -> None:
        silenced: set[Partition] = set()
        for each in outgoing:
            while not self._sent(topic, each):
                silenced |= self._silence()
        if silenced:
            self.consumer.resume(silenced & self.consumer.assignment())

    def _sent(self, topic: str, each: Outgoing) -> bool:
        try:
            self.producer.send(topic, each.value, each.key, each.headers)
        except Full:
            return False
        except Undelivered as error:
            raise FingerprintError(_undelivered(error)) from None
        return True

    def _silence(self) -> frozenset[Partition]:
        """No room: fetch nothing, and poll all the same, or the group takes us for dead."""
        self.metrics.pauses.inc()
        assigned = self.consumer.assignment()
        self.consumer.pause(assigned)
        self.backlog += self.consumer.poll(0.0)
        return assigned

    def _flush(self) -> None:
        try:
            self.producer.flush()
        except Undelivered as error:
            raise FingerprintError(_undelivered(error)) from None

    def _commit(self, messages: list[Message]) -> None:
        ours = self.consumer.assignment()
        offsets = {message.home: message.offset + 1 for message in messages if message.home in ours}
        try:
            if offsets:
                self.consumer.commit(offsets)
        except NotOwner:  # whoever has them now reads them again: repeats, reduced by id
            self.metrics.commits_refused.inc()
            log.warning("commit refused: partitions have another owner")

    def _look_around(self) -> None:
        self.last_turn = time.monotonic()
        self.metrics.watermark(self.reading.watermarks)
        if self.joined and self.last_turn - self.last_lag > LAG_SECONDS:
            self.last_lag = self.last_turn
            self.metrics.lagging(self.consumer.lag())

    def _stopped(self, batch: Batch) -> str:
        limits, reason = self.settings.ingest, dict(batch.dead[-1].headers)["reason"] or b""
        return (
            f"{limits.dead_count:,} or more of the last {limits.dead_window:,} messages of {self.settings.kafka.raw} "
            f"could not be read (the last: {reason.decode()}); mend what sends them, look at `fingerprint dlq list`, "
            "then start again, or raise ingest.dead_count"
        )


def _undelivered(error: Undelivered) -> str:
    return f"what was sent did not arrive ({error}) and was not committed; start again when the broker is back"


def _of_dead(batch: Batch) -> dict[str, Any]:
    headers = dict(batch.dead[0].headers)
    first = {name: (headers[name] or b"").decode() for name in ("topic", "partition", "offset", "reason")}
    return {"letters": len(batch.dead), **first}


def _place(partition: Partition) -> str:
    return f"{partition.topic}/{partition.number}"
