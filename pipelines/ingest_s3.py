"""Notices in a queue -> records under their principal, and dead letters: take, fetch, send, flush, delete. One page."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from prometheus_client import REGISTRY

from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Away, Gone, Message, Objects, Partition, Producer, Queue, Taken
from fingerprint.core.sanitize import visible
from fingerprint.core.settings import Settings
from fingerprint.sources.cloudtrail import s3_notifications
from fingerprint.sources.cloudtrail.s3_notifications import Object
from fingerprint.streaming.ingest_s3_metrics import NoticeMetrics
from fingerprint.streaming.lag_monitor import LOOK_SECONDS
from fingerprint.streaming.rekeying import Limit, letter
from fingerprint.streaming.retrying_producer import Sender
from fingerprint.streaming.s3_objects import Fetching
from pipelines.ingest import too_many_dead
from pipelines.runtime import wiring
from pipelines.runtime.service import running

T = TypeVar("T")
SUSPECT = 3  # a notice that was taken so often: two readers may have died of it
LET_GO_KEPT = 100_000  # notices that are remembered as let go

log = logging.getLogger("fingerprint.ingest")


def run(settings: Settings, url: str, once: bool = False) -> dict[str, Any]:
    """`fingerprint ingest --sqs URL`, with the doors that the settings name."""
    settings.sqs.check_buckets()
    with wiring.queue(url, settings.sqs) as (queue, objects), wiring.producer(settings.kafka) as producer:
        ingest = IngestNotices(queue, objects, producer, settings, NoticeMetrics(REGISTRY))
        with running(settings, ingest.not_ready, ingest.not_alive, "ingest") as asked_to_end:
            return ingest.run(asked_to_end, once)


def in_batches(taken: list[Taken]) -> list[list[Taken]]:
    """Notices as they are worked on: what was taken before comes last and by itself, so that one which kills its reader costs
    no other."""
    fresh = [each for each in taken if each.receives < SUSPECT]
    return [
        fresh,
        *([each] for each in sorted(taken, key=lambda each: each.receives) if each.receives >= SUSPECT),
    ]


class Reasons:
    """Why something in a notice's objects could not be read: the first reason, and how many there were."""

    def __init__(self) -> None:
        self.first, self.count = "", 0

    def add(self, reason: str, count: int = 1) -> None:
        self.first, self.count = self.first or visible(reason), self.count + count


class IngestNotices:
    """The program without its doors. Nothing is deleted from the queue before what was read in it has arrived."""

    def __init__(
        self, queue: Queue, objects: Objects, producer: Producer, settings: Settings, metrics: NoticeMetrics
    ) -> None:
        self.queue, self.objects, self.producer = queue, objects, producer
        self.settings, self.metrics = settings, metrics
        self.fetching = Fetching(settings)
        self.limit = Limit(settings.ingest)
        self.sender = Sender(producer, settings.kafka.delivery_seconds, metrics.pauses.inc)
        self.dead_topic = settings.kafka.raw + settings.kafka.dlq_suffix
        self.home = Partition(queue.name, 0)
        self.once, self.kept = False, set[str]()  # ids of what was kept, where it matters: with `once`
        self.let_go = Counter[str]()  # how often a notice was let go here: no reader died of that
        self.limit_reached: str | None = None  # by a letter for this reason
        self.away: str | None = "has not asked the queue yet"
        self.last_turn = self.last_lag = time.monotonic()

    def run(self, asked_to_end: Callable[[], bool], once: bool = False) -> dict[str, Any]:
        """Turn after turn until asked to end, or with `once` until the queue has nothing more that can be done; the figures
        of `ingest --json`.

        Raises FingerprintError when dead letters reach the limit or there is no room for too long, and Undelivered.
        What was deleted from the queue has arrived, then too.
        """
        started, self.once = time.monotonic(), once
        while not asked_to_end():
            news = self.turn(asked_to_end)
            if once and not news and not self.away:
                break
        figures = self.metrics.figures() | {"seconds": round(time.monotonic() - started, 3)}
        log.info("done", extra={"fields": figures})
        return figures

    def turn(self, asked_to_end: Callable[[], bool]) -> bool:
        """One take and all that follows from it; whether it brought anything that was not kept before."""
        taken: list[Taken] = self._ask(self.queue.take) or []
        news = any(each.id not in self.kept for each in taken)
        for each in in_batches(taken):
            with self.metrics.batch_seconds.time():
                done = self._work_through(each, asked_to_end)
                self.producer.flush()
                self._delete(done)
        self._look_around()
        if self.limit_reached:
            raise FingerprintError(too_many_dead(self.settings, self.queue.url, self.limit_reached))
        return news

    def not_ready(self) -> str | None:
        return self.away

    def not_alive(self) -> str | None:
        still = time.monotonic() - self.last_turn
        return f"stands still for {still:.0f} s" if still > self.settings.health.stalled_seconds else None

    def _work_through(self, taken: list[Taken], asked_to_end: Callable[[], bool]) -> list[Taken]:
        """Those that may be forgotten once all has arrived; the others are in the queue again."""
        done = []
        for number, each in enumerate(taken):
            if asked_to_end() or self.limit_reached:
                self._ask(self.queue.give_back, taken[number:])
                break
            if self._work(each):
                done.append(each)
        return done

    def _work(self, taken: Taken) -> bool:
        """Send all that a notice names, or a letter that says why not; False if it is to come again."""
        reasons = Reasons()
        if taken.receives - self.let_go[taken.id] > self.settings.sqs.most_receives:
            reasons.add(f"taken {taken.receives:,} times and never finished: it may kill its reader")
            self._bury(taken.message, reasons)
            return True
        try:
            notice = s3_notifications.read(taken.message.value or b"")
            for written in notice.objects:
                self._fetch(taken.message, written, reasons)
            self.metrics.noticed(notice)
        except s3_notifications.Unreadable as error:
            reasons.add(str(error))
        except Away as error:
            self._keep(taken, str(error))
            return False
        self._bury(taken.message, reasons)
        return True

    def _fetch(self, notice: Message, written: Object, reasons: Reasons) -> None:
        if not self.settings.sqs.admits(written.bucket):
            reasons.add(f"{written.url}: sqs.buckets does not name its bucket")
            return
        try:
            for piece in self.fetching.read(notice, written, self.objects.read(*written)):
                for each in piece.records:
                    self.sender.send(self.settings.kafka.events, each)
                for reject in piece.rejects[:1]:
                    where = f"{written.url} {reject.position}".rstrip()
                    reasons.add(f"{reject.reason} ({where})", sum(each.count for each in piece.rejects))
                self.metrics.fetched(piece)
                self.last_turn = time.monotonic()
            self.metrics.objects.inc()
        except Gone as error:
            reasons.add(str(error))

    def _bury(self, notice: Message, reasons: Reasons) -> None:
        dead = reasons.count > 0
        if dead:
            buried = letter(notice, reasons.first, reasons.count, self.settings.kafka.message_bytes)
            self.sender.send(self.dead_topic, buried)
            self.metrics.dead.inc()
            log.warning("dead letter", extra={"fields": {"queue": self.queue.name, "reason": reasons.first}})
        if self.limit.reached(np.array([dead])) is not None:
            self.limit_reached = reasons.first

    def _keep(self, taken: Taken, reason: str) -> None:
        """It comes again when its time is over."""
        self.queue.let_go([taken])
        self.let_go[taken.id] += 1
        if len(self.let_go) > LET_GO_KEPT:
            self.let_go.clear()
        self.metrics.kept.inc()
        log.warning("a notice stays in the queue", extra={"fields": {"id": taken.id, "reason": reason}})
        if self.once:
            self.kept.add(taken.id)

    def _delete(self, done: list[Taken]) -> None:
        """What cannot be deleted now comes again: repeats, reduced by id."""
        lost = self._ask(self.queue.delete, done) if done else 0
        self.metrics.lost.inc(len(done) if lost is None else lost)
        self.metrics.messages.inc(len(done))

    def _ask(self, what: Callable[..., T], *arguments: Any) -> T | None:
        """None while the queue does not answer; its client has waited between its tries."""
        try:
            answer = what(*arguments)
        except Away as error:
            self.away = f"the queue does not answer: {error}"
            log.warning(self.away)
            return None
        self.away = None
        return answer

    def _look_around(self) -> None:
        self.last_turn = time.monotonic()
        self.metrics.watermark({self.home: self.fetching.trails.low})
        if self.last_turn - self.last_lag > LOOK_SECONDS:
            self.last_lag = self.last_turn
            waiting = self._ask(self.queue.waiting)
            self.metrics.lagging({} if waiting is None else {self.home: waiting})
