"""Alerts -> whoever else is to know: plan what happened, take what is due, send it, mark it. One page.

A crash between sending and marking sends again under the same key: at least once, never less. Each receiver has a thread of its
own, so one that hangs holds up nobody else's.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from threading import Event, Thread
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from prometheus_client import REGISTRY, CollectorRegistry

from fingerprint.adapters.system import SystemClock
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Away, Clock, Gone
from fingerprint.core.settings import Deliver, Settings
from fingerprint.delivery.formats.registry import body
from fingerprint.delivery.notification import News
from fingerprint.delivery.outbox import Busy, Outbox, Taker
from fingerprint.delivery.policy import LONGEST_WAIT, Delivery, next_try, wait
from fingerprint.store.alerts import open_desk
from fingerprint.store.outbox import outbox_of
from fingerprint.streaming.dependency_status import Troubles
from pipelines.deliver_metrics import DeliverMetrics
from pipelines.runtime.receivers import taker
from pipelines.runtime.service import running

MOST = 20  # deliveries of one turn
LOOK_SECONDS = 2.0  # between two looks for something new
LONGEST_REST = 60.0  # seconds that a receiver which fails is left alone, unless it asks for more
KEEP_DAYS = 30  # what was sent is remembered for so long
NO_RECEIVERS = "no receiver of alerts is set: the settings name them as [deliver.NAME] (docs/deliver.md)"

log = logging.getLogger("fingerprint.deliver")


def run(
    settings: Settings,
    desk_url: str | None = None,
    once: bool = False,
    registry: CollectorRegistry = REGISTRY,
) -> dict[str, Any]:
    """`fingerprint deliver`, with the doors that the settings name; its figures. FingerprintError without any receiver, or
    for one that cannot be."""
    if not settings.deliver:
        raise FingerprintError(NO_RECEIVERS)
    metrics, started = DeliverMetrics(registry), time.monotonic()
    with closing(open_desk(desk_url or settings.desk.url, create=not once)) as desk:
        state = Senders(senders_of(settings, outbox_of(desk), metrics), settings)
        with running(settings, state.not_ready, state.not_alive, "deliver") as asked_to_end:
            state.run(asked_to_end, once)
        stand = outbox_of(desk).counts().values()
    left = {"waiting": sum(each.waiting for each in stand), "given_up": sum(each.failed for each in stand)}
    return metrics.figures() | left | {"seconds": round(time.monotonic() - started, 3)}


@contextmanager
def alongside(
    settings: Settings, desk_url: str, metrics: DeliverMetrics
) -> Iterator[Callable[[], str | None]]:
    """The same within another program, while the block runs; gives what is in trouble, if something is. Without receivers it does
    nothing."""
    with closing(open_desk(desk_url)) as desk:
        state = Senders(senders_of(settings, outbox_of(desk), metrics), settings)
        with state.working():
            yield state.not_ready


def senders_of(settings: Settings, outbox: Outbox, metrics: DeliverMetrics) -> list[Sender]:
    """One for each receiver of the settings; it is led to the desk's own pages, if nothing else is said."""
    clock, base = SystemClock(), settings.web.public_url
    pages = {"link": f"{base}/alerts/"} if base else {}
    return [
        Sender(
            name,
            wants if wants.link else wants.model_copy(update=pages),
            outbox,
            taker(name, settings),
            clock,
            metrics,
        )
        for name, wants in settings.deliver.items()
    ]


class Sender:
    """All that one receiver is told. One thread at a time; others may send to the same receiver beside it."""

    def __init__(
        self,
        name: str,
        wants: Deliver,
        outbox: Outbox,
        taker: Taker,
        clock: Clock,
        metrics: DeliverMetrics,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.name, self.wants, self.outbox, self.taker = name, wants, outbox, taker
        self.clock, self.metrics, self.draw = clock, metrics, draw
        self.by = uuid4().hex
        self.enrolled = False
        self.trouble: str | None = "has not looked at the desk yet"
        self.missed = 0  # tries in a row
        self.rest_until = self.last_forgotten = clock.now()
        self.last_turn = time.monotonic()
        metrics.begin(name)

    def turn(self, asked_to_end: Callable[[], bool] = lambda: False) -> int:
        """Plan, take, send, mark; how much was planned and taken. FingerprintError where the desk is away."""
        self.last_turn = time.monotonic()
        if not self.enrolled:
            self.outbox.enrol(self.name, self.wants.backlog)
            self.enrolled = True
        planned = self.outbox.plan(self.name, self.wants, self.clock.now())
        self.metrics.planned.labels(self.name).inc(planned)
        taken = self._take()
        self._send_all(taken, asked_to_end)
        self._look_around()
        return planned + len(taken)

    def _take(self) -> list[Delivery]:
        """Held long enough for all of them, each with its whole time. None while the receiver is left alone."""
        now = self.clock.now()
        if now < self.rest_until:
            return []
        until = now + timedelta(seconds=60 + 2 * MOST * self.wants.seconds)
        return self.outbox.take(self.name, now, until, MOST, self.by)

    def _send_all(self, taken: list[Delivery], asked_to_end: Callable[[], bool]) -> None:
        """One after the other, until one fails: what is left is given back untried."""
        left = list(taken)
        try:
            while left and not asked_to_end() and self._send(left.pop(0)):
                self.last_turn = time.monotonic()
        finally:
            self.outbox.let_go(left, self.by)

    def _send(self, delivery: Delivery) -> bool:
        """Whether the next one may be tried."""
        found = self.outbox.alert(delivery)
        if found is None:
            self._give_up(delivery, "the alert is no longer on the desk")
            return True
        alert, said = found
        link = f"{self.wants.link}{quote(alert.alert_id, safe='')}" if self.wants.link else ""
        try:
            with self.metrics.seconds.labels(self.name).time():
                sent = body(self.wants.wording, News(alert, delivery.happened, said, link))
                self.taker.take(delivery.key, sent, alert.principal, self.clock.now())
        except (Away, Gone) as error:
            self._missed(delivery, error)
            return False
        except FingerprintError as error:  # its secret's file is gone, and may be back
            self._missed(delivery, Away(str(error)))
            return False
        self.outbox.sent(delivery, self.clock.now())
        self.metrics.sent.labels(self.name).inc()
        self.missed, self.trouble = 0, None
        return True

    def _missed(self, delivery: Delivery, error: Away | Gone) -> None:
        """It is tried again later, or given up; and the receiver is left alone for a while."""
        now, asked = self.clock.now(), error.seconds if isinstance(error, Busy) else 0.0
        self.missed, self.trouble = self.missed + 1, str(error)
        rest = max(min(wait(self.missed, self.draw()), LONGEST_REST), min(asked, LONGEST_WAIT))
        self.rest_until = now + timedelta(seconds=rest)
        again = next_try(self.wants, delivery, now, self.draw(), asked)
        if again is None or isinstance(error, Gone):
            self._give_up(delivery, str(error))
            return
        self.outbox.again(delivery, again, str(error), self.by)
        self.metrics.tries_failed.labels(self.name).inc()
        log.warning("tried again later", extra={"fields": self._fields(delivery, str(error))})

    def _give_up(self, delivery: Delivery, reason: str) -> None:
        self.outbox.failed(delivery, self.clock.now(), reason)
        self.metrics.failed.labels(self.name).inc()
        log.error("given up", extra={"fields": self._fields(delivery, reason)})

    def _fields(self, delivery: Delivery, reason: str) -> dict[str, Any]:
        tries = delivery.tries + 1
        return {"receiver": self.name, "alert": delivery.alert_id, "tries": tries, "reason": reason}

    def _look_around(self) -> None:
        now = self.clock.now()
        if now - self.last_forgotten > timedelta(hours=1):
            self.last_forgotten = now
            self.outbox.forget(now - timedelta(days=KEEP_DAYS))
        counts = self.outbox.counts()
        self.metrics.look(counts, self.name, now)
        if self.name not in counts or not counts[self.name].waiting:
            self.trouble = None


class Senders:
    """The senders of all receivers, each on a thread."""

    def __init__(self, senders: list[Sender], settings: Settings) -> None:
        self.senders, self.stalled = senders, settings.health.stalled_seconds
        self.desk = Troubles()
        self.ending = Event()

    def run(self, asked_to_end: Callable[[], bool], once: bool = False) -> None:
        """Until asked to end; with `once` until nothing is due any more."""
        if once:
            for sender in self.senders:
                while not asked_to_end() and sender.turn(asked_to_end):
                    pass
            self._close()
            return
        with self.working():
            while not asked_to_end():
                self.ending.wait(0.2)

    @contextmanager
    def working(self) -> Iterator[None]:
        """On their threads while the block runs; what is under way then is finished."""
        threads = [
            Thread(target=self._work, args=(sender,), name=f"deliver-{sender.name}")
            for sender in self.senders
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.ending.set()
            for thread in threads:
                thread.join()
            self._close()

    def _work(self, sender: Sender) -> None:
        """A desk that is away is asked again; anything unforeseen is logged, and the others go on."""
        while not self.ending.is_set():
            try:
                busy = sender.turn(self.ending.is_set)
                self.desk.over(sender.name)
            except FingerprintError as error:
                busy = 0
                self.desk.say(sender.name, str(error))
            except Exception as error:
                busy = 0
                log.exception("unforeseen")
                self.desk.say(sender.name, repr(error))
            if not busy:
                self.ending.wait(LOOK_SECONDS)

    def not_ready(self) -> str | None:
        """The desk is away, or a receiver does not answer."""
        troubles = [f"{each.name}: {each.trouble}" for each in self.senders if each.trouble]
        return "; ".join(filter(None, [self.desk.sentence(), *troubles])) or None

    def not_alive(self) -> str | None:
        still = {each.name: time.monotonic() - each.last_turn for each in self.senders}
        slow = [
            f"{name} stands still for {seconds:.0f} s"
            for name, seconds in still.items()
            if seconds > self.stalled
        ]
        return "; ".join(slow) or None

    def _close(self) -> None:
        for sender in self.senders:
            sender.taker.close()
