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
from fingerprint.core.ports import Clock, ObjectNotFound, Unavailable
from fingerprint.core.settings import ReceiverSettings, Settings
from fingerprint.delivery.formats import encode_notification
from fingerprint.delivery.notification import Notification
from fingerprint.delivery.outbox import Outbox, RateLimited, Receiver
from fingerprint.delivery.policy import MAX_BACKOFF, Delivery, next_attempt, retry_delay
from fingerprint.store import open_store
from fingerprint.streaming.backpressure import DependencyStatus
from fingerprint.streaming.lag_monitor import STALLED_SECONDS
from pipelines.deliver_metrics import DeliverMetrics
from pipelines.runtime.receivers import create_receiver
from pipelines.runtime.service import running_service

MAX_DELIVERIES_PER_TURN = 20  # deliveries of one turn
POLL_SECONDS = 2.0  # between two looks for something new
MAX_BACKOFF_SECONDS = 60.0  # seconds that a receiver which fails is left alone, unless it asks for more
SENT_RETENTION_DAYS = 30  # what was sent is remembered for so long
NO_RECEIVERS = (
    "no receiver of alerts is set: the settings name them as [deliver.NAME] (docs/how-to/deliver.md)"
)

log = logging.getLogger("fingerprint.deliver")


def run_deliver(
    settings: Settings,
    database_url: str | None = None,
    once: bool = False,
    registry: CollectorRegistry = REGISTRY,
) -> dict[str, Any]:
    """`fingerprint deliver`, with the doors that the settings name; its figures. FingerprintError without any receiver, or
    for one that cannot be."""
    if not settings.deliver:
        raise FingerprintError(NO_RECEIVERS)
    metrics, started = DeliverMetrics(registry), time.monotonic()
    with closing(open_store(database_url or settings.database.url, create=not once)) as desk:
        state = DeliveryService(create_senders(settings, desk.outbox, metrics), settings)
        with running_service(settings, state.not_ready, state.not_alive, "delivery") as asked_to_end:
            state.run(asked_to_end, once)
        stand = desk.outbox.counts_by_receiver().values()
    left = {"waiting": sum(each.waiting for each in stand), "given_up": sum(each.failed for each in stand)}
    return metrics.figures() | left | {"seconds": round(time.monotonic() - started, 3)}


@contextmanager
def deliver_in_background(
    settings: Settings, database_url: str, metrics: DeliverMetrics
) -> Iterator[Callable[[], str | None]]:
    """The same within another program, while the block runs; gives what is in trouble, if something is. Without receivers it does
    nothing."""
    with closing(open_store(database_url)) as desk:
        state = DeliveryService(create_senders(settings, desk.outbox, metrics), settings)
        with state.running_in_background():
            yield state.not_ready


def create_senders(settings: Settings, outbox: Outbox, metrics: DeliverMetrics) -> list[DeliverySender]:
    """One for each receiver of the settings; it is led to the desk's own pages, if nothing else is said."""
    clock, base = SystemClock(), settings.web.public_url
    pages = {"link": f"{base}/alerts/"} if base else {}
    return [
        DeliverySender(
            name,
            wants if wants.alert_url_prefix else wants.model_copy(update=pages),
            outbox,
            create_receiver(name, settings),
            clock,
            metrics,
        )
        for name, wants in settings.deliver.items()
    ]


class DeliverySender:
    """All that one receiver is told. One thread at a time; others may send to the same receiver beside it."""

    def __init__(
        self,
        name: str,
        options: ReceiverSettings,
        outbox: Outbox,
        receiver: Receiver,
        clock: Clock,
        metrics: DeliverMetrics,
        random_fraction: Callable[[], float] = random.random,
    ) -> None:
        self.name, self.options, self.outbox, self.receiver = name, options, outbox, receiver
        self.clock, self.metrics, self.random_fraction = clock, metrics, random_fraction
        self.lease_owner = uuid4().hex
        self.is_registered = False
        self.problem: str | None = "has not looked at the desk yet"
        self.failures_in_a_row = 0  # tries in a row
        self.retry_not_before = self.last_cleanup = clock.now()
        self.last_turn = time.monotonic()
        metrics.register_receiver(name)

    def run_once(self, asked_to_end: Callable[[], bool] = lambda: False) -> int:
        """Plan, take, send, mark; how much was planned and taken. FingerprintError where the desk is away."""
        self.last_turn = time.monotonic()
        if not self.is_registered:
            self.outbox.register_receiver(self.name, self.options.include_existing)
            self.is_registered = True
        planned = self.outbox.schedule(self.name, self.options, self.clock.now())
        self.metrics.planned.labels(self.name).inc(planned)
        taken = self._lease()
        self._send_all(taken, asked_to_end)
        self._update_status()
        return planned + len(taken)

    def _lease(self) -> list[Delivery]:
        """Held long enough for all of them, each with its whole time. None while the receiver is left alone."""
        now = self.clock.now()
        if now < self.retry_not_before:
            return []
        until = now + timedelta(seconds=60 + 2 * MAX_DELIVERIES_PER_TURN * self.options.timeout_seconds)
        return self.outbox.claim(self.name, now, until, MAX_DELIVERIES_PER_TURN, self.lease_owner)

    def _send_all(self, taken: list[Delivery], asked_to_end: Callable[[], bool]) -> None:
        """One after the other, until one fails: what is left is given back untried."""
        left = list(taken)
        try:
            while left and not asked_to_end() and self._send(left.pop(0)):
                self.last_turn = time.monotonic()
        finally:
            self.outbox.release(left, self.lease_owner)

    def _send(self, delivery: Delivery) -> bool:
        """Whether the next one may be tried."""
        found = self.outbox.current_alert(delivery)
        if found is None:
            self._give_up(delivery, "the alert is no longer on the desk")
            return True
        alert, said = found
        link = (
            f"{self.options.alert_url_prefix}{quote(alert.alert_id, safe='')}"
            if self.options.alert_url_prefix
            else ""
        )
        try:
            with self.metrics.seconds.labels(self.name).time():
                sent = encode_notification(
                    self.options.resolved_format, Notification(alert, delivery.happened, said, link)
                )
                self.receiver.deliver(delivery.key, sent, alert.principal, self.clock.now())
        except (Unavailable, ObjectNotFound) as error:
            self._handle_failure(delivery, error)
            return False
        except FingerprintError as error:  # its secret's file is gone, and may be back
            self._handle_failure(delivery, Unavailable(str(error)))
            return False
        self.outbox.mark_sent(delivery, self.clock.now())
        self.metrics.sent.labels(self.name).inc()
        self.failures_in_a_row, self.problem = 0, None
        return True

    def _handle_failure(self, delivery: Delivery, error: Unavailable | ObjectNotFound) -> None:
        """It is tried again later, or given up; and the receiver is left alone for a while."""
        now, asked = self.clock.now(), error.retry_after if isinstance(error, RateLimited) else 0.0
        self.failures_in_a_row, self.problem = self.failures_in_a_row + 1, str(error)
        rest = max(
            min(retry_delay(self.failures_in_a_row, self.random_fraction()), MAX_BACKOFF_SECONDS),
            min(asked, MAX_BACKOFF),
        )
        self.retry_not_before = now + timedelta(seconds=rest)
        again = next_attempt(self.options, delivery, now, self.random_fraction(), asked)
        if again is None or isinstance(error, ObjectNotFound):
            self._give_up(delivery, str(error))
            return
        self.outbox.reschedule(delivery, again, str(error), self.lease_owner)
        self.metrics.tries_failed.labels(self.name).inc()
        log.warning("tried again later", extra={"fields": self._fields(delivery, str(error))})

    def _give_up(self, delivery: Delivery, reason: str) -> None:
        self.outbox.mark_failed(delivery, self.clock.now(), reason)
        self.metrics.failed.labels(self.name).inc()
        log.error("given up", extra={"fields": self._fields(delivery, reason)})

    def _fields(self, delivery: Delivery, reason: str) -> dict[str, Any]:
        tries = delivery.tries + 1
        return {"receiver": self.name, "alert": delivery.alert_id, "tries": tries, "reason": reason}

    def _update_status(self) -> None:
        now = self.clock.now()
        if now - self.last_cleanup > timedelta(hours=1):
            self.last_cleanup = now
            self.outbox.delete_sent(now - timedelta(days=SENT_RETENTION_DAYS))
        counts = self.outbox.counts_by_receiver()
        self.metrics.update_backlog(counts, self.name, now)
        if self.name not in counts or not counts[self.name].waiting:
            self.problem = None


class DeliveryService:
    """The senders of all receivers, each on a thread."""

    def __init__(self, senders: list[DeliverySender], settings: Settings) -> None:
        self.senders, self.stalled = senders, STALLED_SECONDS
        self.store = DependencyStatus()
        self.stopping = Event()

    def run(self, asked_to_end: Callable[[], bool], once: bool = False) -> None:
        """Until asked to end; with `once` until nothing is due any more."""
        if once:
            for sender in self.senders:
                while not asked_to_end() and sender.run_once(asked_to_end):
                    pass
            self._close()
            return
        with self.running_in_background():
            while not asked_to_end():
                self.stopping.wait(0.2)

    @contextmanager
    def running_in_background(self) -> Iterator[None]:
        """On their threads while the block runs; what is under way then is finished."""
        threads = [
            Thread(target=self._run_sender, args=(sender,), name=f"deliver-{sender.name}")
            for sender in self.senders
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join()
            self._close()

    def _run_sender(self, sender: DeliverySender) -> None:
        """A desk that is away is asked again; anything unforeseen is logged, and the others go on."""
        while not self.stopping.is_set():
            try:
                busy = sender.run_once(self.stopping.is_set)
                self.store.recover(sender.name)
            except FingerprintError as error:
                busy = 0
                self.store.fail(sender.name, str(error))
            except Exception as error:
                busy = 0
                log.exception("unforeseen")
                self.store.fail(sender.name, repr(error))
            if not busy:
                self.stopping.wait(POLL_SECONDS)

    def not_ready(self) -> str | None:
        """The desk is away, or a receiver does not answer."""
        troubles = [f"{each.name}: {each.problem}" for each in self.senders if each.problem]
        return "; ".join(filter(None, [self.store.summary(), *troubles])) or None

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
            sender.receiver.close()
