"""Delivery of alerts to the receivers of the settings: a sender for each receiver, each on its own thread.

Delivery is at least once: after a crash between sending and marking, the same notification is sent again under the same key. A
receiver that hangs does not delay other receivers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fingerprint.core.address import NO_ADDRESS_TABLES, AddressTables
from fingerprint.core.alert import Alert, Disposition
from fingerprint.core.errors import FingerprintError, ObjectNotFound, Unavailable
from fingerprint.core.incident import UNKNOWN_ORIGIN, SessionOrigin
from fingerprint.core.log import get_logger
from fingerprint.core.ports.clock import Clock
from fingerprint.core.settings import ReceiverSettings
from fingerprint.delivery.formats import encode_notification
from fingerprint.delivery.notification import Notification
from fingerprint.delivery.outbox import Backlog, Outbox, RateLimited, Receiver
from fingerprint.delivery.policy import MAX_BACKOFF, Delivery, next_attempt, retry_delay
from fingerprint.streaming.backpressure import DependencyStatus
from fingerprint.streaming.service import LIVENESS_TIMEOUT_SECONDS

MAX_DELIVERIES_PER_TURN = 20
POLL_SECONDS = 2.0  # between two polls of the outbox
MAX_BACKOFF_SECONDS = 60.0  # longest pause after a failure of a receiver, unless it asks for a longer one
SENT_RETENTION_DAYS = 30  # sent deliveries are kept as long
_PREFIX = "fingerprint_deliver"
_LABELS = ("receiver",)
REPORTED_COUNTERS = ("planned", "sent", "tries_failed", "failed")

log = get_logger("fingerprint.deliver")


class DeliverySender:
    """Delivery to one receiver, on one thread; other processes may send to the same receiver."""

    def __init__(
        self,
        name: str,
        options: ReceiverSettings,
        outbox: Outbox,
        receiver: Receiver,
        clock: Clock,
        metrics: DeliverMetrics,
        random_fraction: Callable[[], float] = random.random,
        addresses: AddressTables = NO_ADDRESS_TABLES,
        find_origin: Callable[[Alert], tuple[Alert, SessionOrigin]] = lambda alert: (alert, UNKNOWN_ORIGIN),
    ) -> None:
        self.name, self.options, self.outbox, self.receiver = name, options, outbox, receiver
        self.clock, self.metrics, self.random_fraction = clock, metrics, random_fraction
        self.addresses, self.find_origin = addresses, find_origin
        self.lease_owner = uuid4().hex
        self.is_registered = False
        self.problem: str | None = "has not read the database yet"
        self.failures_in_a_row = 0  # tries in a row
        self.retry_not_before = self.last_cleanup = clock.now()
        self.last_iteration = time.monotonic()
        metrics.register_receiver(name)

    def run_once(self, stop_requested: Callable[[], bool] = lambda: False) -> int:
        """Schedule, claim, send and mark deliveries; return how many were scheduled and claimed.

        Raises FingerprintError if the database is unavailable.
        """
        self.last_iteration = time.monotonic()
        if not self.is_registered:
            self.outbox.register_receiver(self.name, self.options)
            self.is_registered = True
        try:
            planned = self.outbox.schedule(self.name, self.options, self.clock.now())
            self.metrics.planned.labels(self.name).inc(planned)
            taken = self._lease()
            self._send_all(taken, stop_requested)
        finally:  # the gauges must show late deliveries even after an error
            self._update_status()
        return planned + len(taken)

    def _lease(self) -> list[Delivery]:
        """Claim deliveries for as long as sending all of them can take, and return them; none during the receiver's back-off."""
        now = self.clock.now()
        if now < self.retry_not_before:
            return []
        until = now + timedelta(seconds=60 + 2 * MAX_DELIVERIES_PER_TURN * self.options.timeout_seconds)
        return self.outbox.claim(self.name, now, until, MAX_DELIVERIES_PER_TURN, self.lease_owner)

    def _send_all(self, taken: list[Delivery], stop_requested: Callable[[], bool]) -> None:
        """Send deliveries one after the other until one fails; release the rest."""
        left = list(taken)
        try:
            while left and not stop_requested() and self._send(left.pop(0)):
                self.last_iteration = time.monotonic()
        finally:
            self.outbox.release(left, self.lease_owner)

    def _send(self, delivery: Delivery) -> bool:
        """Send one delivery; return whether the next one may be sent."""
        found = self.outbox.current_alert(delivery)
        if found is None:
            self._give_up(delivery, "the alert is no longer in the database")
            return True
        try:
            with self.metrics.seconds.labels(self.name).time():
                body = encode_notification(self.options.resolved_format, self._notification(delivery, *found))
                self.receiver.deliver(delivery.key, body, found[0].principal, self.clock.now())
        except (Unavailable, ObjectNotFound) as error:
            self._handle_failure(delivery, error)
            return False
        except FingerprintError as error:  # the file of a secret is missing, and may come back
            self._handle_failure(delivery, Unavailable(str(error)))
            return False
        except Exception as error:  # a defect; it counts as a failed try, or it would be sent again for ever
            log.exception("unexpected error")
            self._handle_failure(delivery, Unavailable(f"unexpected {type(error).__name__}: see the log"))
            return False
        self.outbox.mark_sent(delivery, self.clock.now())
        self.metrics.sent.labels(self.name).inc()
        self.failures_in_a_row, self.problem = 0, None
        return True

    def _notification(
        self, delivery: Delivery, alert: Alert, disposition: Disposition | None
    ) -> Notification:
        """Return the notification of an alert: with decision, link to its page, tables of addresses and opener of its session."""
        whole, origin = self.find_origin(alert)
        prefix = self.options.alert_url_prefix
        link = f"{prefix}{quote(alert.alert_id, safe='')}" if prefix else ""
        return Notification(whole, delivery.happened, disposition, link, self.addresses, delivery.key, origin)

    def _handle_failure(self, delivery: Delivery, error: Unavailable | ObjectNotFound) -> None:
        """Reschedule a delivery or mark it failed, and back off from the receiver."""
        now, retry_after = self.clock.now(), error.retry_after if isinstance(error, RateLimited) else 0.0
        self.failures_in_a_row, self.problem = self.failures_in_a_row + 1, str(error)
        rest = max(
            min(retry_delay(self.failures_in_a_row, self.random_fraction()), MAX_BACKOFF_SECONDS),
            min(retry_after, MAX_BACKOFF),
        )
        self.retry_not_before = now + timedelta(seconds=rest)
        again = next_attempt(delivery, now, self.random_fraction(), retry_after)
        if again is None or isinstance(error, ObjectNotFound):
            self._give_up(delivery, str(error))
            return
        self.outbox.reschedule(delivery, again, str(error), self.lease_owner)
        self.metrics.tries_failed.labels(self.name).inc()
        log.warning("tried again later", **self._fields(delivery, str(error)))

    def _give_up(self, delivery: Delivery, reason: str) -> None:
        self.outbox.mark_failed(delivery, self.clock.now(), reason)
        self.metrics.failed.labels(self.name).inc()
        log.error("given up", **self._fields(delivery, reason))

    def _fields(self, delivery: Delivery, reason: str) -> dict[str, Any]:
        tries = delivery.tries + 1
        return {"receiver": self.name, "alert": delivery.alert_id, "tries": tries, "reason": reason}

    def _update_status(self) -> None:
        now = self.clock.now()
        if now - self.last_cleanup > timedelta(hours=1):
            self.last_cleanup = now
            self.outbox.delete_sent(now - timedelta(days=SENT_RETENTION_DAYS))
        backlog = self.outbox.backlog(self.name)
        self.metrics.update_backlog(backlog, self.name, now)
        if not backlog.waiting:
            self.problem = None


class DeliveryService:
    """The senders of all receivers, each on a thread."""

    def __init__(self, senders: list[DeliverySender]) -> None:
        self.senders, self.stalled = senders, LIVENESS_TIMEOUT_SECONDS
        self.store = DependencyStatus()
        self.stopping = Event()

    def run(self, stop_requested: Callable[[], bool], once: bool = False) -> None:
        """Run until asked to end; with `once` until nothing is due."""
        if once:
            for sender in self.senders:
                while not stop_requested() and sender.run_once(stop_requested):
                    pass
            self._close()
            return
        with self.running_in_background():
            while not stop_requested():
                self.stopping.wait(0.2)

    @contextmanager
    def running_in_background(self) -> Iterator[None]:
        """Run the senders on threads while the block runs; at its end they finish the delivery that is under way."""
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
        """Run a sender again and again; an unavailable database is retried, an unexpected error is logged."""
        while not self.stopping.is_set():
            try:
                busy = sender.run_once(self.stopping.is_set)
                self.store.recover(sender.name)
            except FingerprintError as error:
                busy = 0
                self.store.fail(sender.name, str(error))
            except Exception as error:
                busy = 0
                log.exception("unexpected error")
                self.store.fail(sender.name, repr(error))
            if not busy:
                self.stopping.wait(POLL_SECONDS)

    def not_ready(self) -> str | None:
        """Return why the database or a receiver is unavailable, or None."""
        troubles = [f"{each.name}: {each.problem}" for each in self.senders if each.problem]
        return "; ".join(filter(None, [self.store.summary(), *troubles])) or None

    def not_alive(self) -> str | None:
        """Return why the service is not alive; None while every sender makes progress."""
        still = {each.name: time.monotonic() - each.last_iteration for each in self.senders}
        slow = [
            f"{name} stands still for {seconds:.0f} s"
            for name, seconds in still.items()
            if seconds > self.stalled
        ]
        return "; ".join(slow) or None

    def _close(self) -> None:
        for sender in self.senders:
            sender.receiver.close()


class DeliverMetrics:
    """Metrics of `deliver`, by receiver; a process, or a test, has one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help: str) -> Counter:
            return Counter(f"{_PREFIX}_{name}", help, _LABELS, registry=registry)

        def gauge(name: str, help: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", help, _LABELS, registry=registry)

        self.planned = counter("changes_examined", "Changes of alerts that were examined for delivery.")
        self.sent = counter("sent", "Deliveries that the receiver accepted.")
        self.tries_failed = counter("retries", "Failed attempts that will be repeated.")
        self.failed = counter("failed", "Deliveries that were given up.")
        self.seconds = Histogram(
            f"{_PREFIX}_attempt_duration_seconds",
            "Histogram of the duration of one attempt.",
            _LABELS,
            registry=registry,
        )
        self.waiting = gauge("pending", "Deliveries that are pending.")
        self.oldest = gauge("oldest_pending_seconds", "Age of the oldest pending delivery, in seconds.")
        self.given_up = gauge("abandoned", "Abandoned deliveries that no one has retried.")

    def register_receiver(self, receiver: str) -> None:
        """Create every counter of a receiver, so that it is exported from the start."""
        for each in (self.planned, self.sent, self.tries_failed, self.failed):
            each.labels(receiver)

    def update_backlog(self, own: Backlog, receiver: str, now: datetime) -> None:
        """Set the gauges of a receiver's waiting and failed deliveries."""
        self.waiting.labels(receiver).set(own.waiting)
        self.given_up.labels(receiver).set(own.failed)
        waited = (now - own.oldest_waiting).total_seconds() if own.oldest_waiting else 0.0
        self.oldest.labels(receiver).set(max(0.0, waited))

    def figures(self) -> dict[str, int]:
        """Return the counts so far, over all receivers."""
        return {name: _sum(getattr(self, name)) for name in REPORTED_COUNTERS}


def _sum(counter: Counter) -> int:
    return int(
        sum(
            each.value
            for metric in counter.collect()
            for each in metric.samples
            if each.name.endswith("_total")
        )
    )
