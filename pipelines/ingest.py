"""Raw topic -> records under their principal, and dead letters: poll, read, send, flush, commit. One page."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from prometheus_client import REGISTRY

from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Consumer, Message, NotOwner, Partition, Producer, Rebalancing
from fingerprint.core.settings import Settings
from fingerprint.streaming.backpressure import Pausing
from fingerprint.streaming.bounded_read import NOTHING_OURS, UntilEnd
from fingerprint.streaming.ingest_metrics import IngestMetrics
from fingerprint.streaming.lag_monitor import Watch
from fingerprint.streaming.poison import REASON, PoisonGuard
from fingerprint.streaming.rekeying import Batch, Ingesting, Limit, Outgoing
from fingerprint.streaming.retrying_producer import Sender
from pipelines.runtime import wiring
from pipelines.runtime.service import running

POLL_SECONDS = 0.5

log = logging.getLogger("fingerprint.ingest")


def run(settings: Settings, once: bool = False) -> dict[str, Any]:
    """`fingerprint ingest`, with the doors that the settings name."""
    with wiring.consumer(settings.kafka, "ingest") as consumer, wiring.producer(settings.kafka) as producer:
        ingest = Ingest(consumer, producer, settings, IngestMetrics(REGISTRY))
        with running(settings, ingest.not_ready, ingest.not_alive, "ingest") as asked_to_end:
            return ingest.run(asked_to_end, once)


class Ingest:
    """The program without its doors: batch after batch. A partition's watermark lives as long as its assignment."""

    def __init__(
        self, consumer: Consumer, producer: Producer, settings: Settings, metrics: IngestMetrics
    ) -> None:
        self.consumer, self.producer, self.settings, self.metrics = consumer, producer, settings, metrics
        self.reading = Ingesting(settings)
        self.limit = Limit(settings.ingest)
        self.topic = settings.kafka.events
        self.dead_topic = settings.kafka.raw + settings.kafka.dlq_suffix
        self.pausing = Pausing(consumer, metrics.pauses.inc)
        self.guard = PoisonGuard(consumer, self._breathe)
        self.sender = Sender(producer, settings.kafka.delivery_seconds, self._full)
        self.joined = False
        self.watch = Watch(consumer, settings.kafka, metrics.watch)
        self.last_turn = time.monotonic()

    def run(self, asked_to_end: Callable[[], bool], once: bool = False) -> dict[str, Any]:
        """Turn after turn until asked to end, or with `once` until where the raw topic ended at the start; the figures
        of `ingest --json`.

        Raises FingerprintError when dead letters reach the limit or there is no room for too long, and Undelivered.
        What is committed was written before, then too.
        """
        started = time.monotonic()
        self.consumer.subscribe([self.settings.kafka.raw], assigned=self.assigned, revoked=self.revoked)
        kafka = self.settings.kafka
        end = UntilEnd(self.consumer, patience=kafka.session_seconds + kafka.answer_seconds)
        with self.guard.spared():
            while not asked_to_end():
                end.saw(self.turn(POLL_SECONDS))
                if once and end.reached():
                    break
        if end.left_out:
            log.warning(NOTHING_OURS)
        figures = self.metrics.figures() | {"seconds": round(time.monotonic() - started, 3)}
        log.info("done", extra={"fields": figures})
        return figures

    def turn(self, seconds: float) -> list[Message]:
        """One poll and all that follows from it; the messages that were dealt with."""
        messages = self.pausing.poll(seconds)
        self.watch.saw(messages)
        for polled, deadly in self.guard.batches(messages):
            read = [self.reading.unread(polled[0], REASON)] if deadly else self.reading.read(polled)
            for batch in read:
                with self.metrics.batch_seconds.time():
                    self._write(batch, polled)
        self.pausing.resume()
        self._look_around()
        return messages

    def assigned(self, partitions: Collection[Partition]) -> None:
        self.joined = True
        self.guard.forget(partitions)
        log.info("assigned", extra={"fields": {"partitions": sorted(each.place for each in partitions)}})

    def revoked(self, partitions: Collection[Partition]) -> None:
        self.pausing.forget(partitions)
        self.guard.forget(partitions)
        self.reading.forget(partitions)
        self.metrics.forget(partitions)
        log.info("revoked", extra={"fields": {"partitions": sorted(each.place for each in partitions)}})

    def not_ready(self) -> str | None:
        return self.watch.trouble() if self.joined else "has not joined the group yet"

    def not_alive(self) -> str | None:
        still = time.monotonic() - self.last_turn
        return f"stands still for {still:.0f} s" if still > self.settings.health.stalled_seconds else None

    def _write(self, batch: Batch, messages: list[Message]) -> None:
        """Written and acknowledged, then committed; after a commit nothing can be lost, before it all comes again."""
        dead = np.zeros(batch.done - batch.begin, bool)
        dead[batch.dead_from - batch.begin] = True
        last = self.limit.reached(dead)
        if last is not None:
            batch = batch.until(batch.begin + last + 1)
        self._send(self.topic, batch.records)
        self._send(self.dead_topic, batch.dead)
        with self.watch.asking():
            self.producer.flush()
            self._commit(messages[batch.begin : batch.done])
        self.metrics.count(batch)
        if batch.dead:
            log.warning("dead letters", extra={"fields": _of_dead(batch)})
        if last is not None:
            reason = dict(batch.dead[-1].headers)["reason"] or b""
            raise FingerprintError(too_many_dead(self.settings, self.settings.kafka.raw, reason.decode()))

    def _send(self, topic: str, outgoing: list[Outgoing]) -> None:
        for each in outgoing:
            self.sender.send(topic, each)
        if self.pausing.silenced:
            self.watch.answered()
        self.pausing.resume()

    def _breathe(self) -> None:
        """Messages are read one by one, which takes long."""
        self.last_turn = time.monotonic()
        self.pausing.pause()

    def _full(self) -> None:
        """Too much is on its way: the broker owes us its answers."""
        self.watch.ask()
        self.pausing.pause()

    def _commit(self, messages: list[Message]) -> None:
        """What is still ours. Whoever has the rest reads it again: repeats, reduced by id."""
        offsets = {message.home: message.offset + 1 for message in messages}
        while not self._committed(offsets):
            self.pausing.keep(POLL_SECONDS)

    def _committed(self, offsets: Mapping[Partition, int]) -> bool:
        """False while the group is being shared out anew: poll, and come again."""
        ours = {each: offsets[each] for each in offsets.keys() & self.consumer.assignment()}
        try:
            if ours:
                self.consumer.commit(ours)
                self.guard.passed(ours)
        except Rebalancing:
            return False
        except NotOwner:
            ours = {}
        if len(ours) < len(offsets):
            self.metrics.commits_refused.inc()
            log.warning("not all committed: partitions have another owner")
        return True

    def _look_around(self) -> None:
        self.last_turn = time.monotonic()
        self.metrics.watermark(self.reading.watermarks)
        if self.joined and (lag := self.watch.look()) is not None:
            self.metrics.lagging(lag)


def too_many_dead(settings: Settings, source: str, reason: str) -> str:
    """What is said when dead letters reach their limit."""
    limits = settings.ingest
    return (
        f"{limits.dead_count:,} or more of the last {limits.dead_window:,} messages of {source} "
        f"could not be read (the last: {reason}); mend what sends them, look at `fingerprint dlq list`, "
        "then start again, or raise ingest.dead_count"
    )


def _of_dead(batch: Batch) -> dict[str, Any]:
    headers = dict(batch.dead[0].headers)
    first = {name: (headers[name] or b"").decode() for name in ("topic", "partition", "offset", "reason")}
    return {"letters": len(batch.dead), **first}
