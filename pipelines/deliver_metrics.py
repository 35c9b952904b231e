"""What `fingerprint deliver` counts, for Prometheus and for its own figures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fingerprint.delivery.outbox import DeliveryCounts

_PREFIX = "fingerprint_deliver"
_LABELS = ("receiver",)
REPORTED_COUNTERS = ("planned", "sent", "tries_failed", "failed")


class DeliverMetrics:
    """One registry a process, or one a test; by receiver."""

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
            "Duration of one attempt, in seconds.",
            _LABELS,
            registry=registry,
        )
        self.waiting = gauge("pending", "Deliveries that are pending.")
        self.oldest = gauge("oldest_pending_seconds", "Age of the oldest pending delivery, in seconds.")
        self.given_up = gauge("abandoned", "Abandoned deliveries that no one has retried.")

    def register_receiver(self, receiver: str) -> None:
        """Every counter is there from the start."""
        for each in (self.planned, self.sent, self.tries_failed, self.failed):
            each.labels(receiver)

    def update_backlog(self, counts: Mapping[str, DeliveryCounts], receiver: str, now: datetime) -> None:
        stand = counts.get(receiver, DeliveryCounts(0, 0, 0, None))
        self.waiting.labels(receiver).set(stand.waiting)
        self.given_up.labels(receiver).set(stand.failed)
        waited = (now - stand.oldest_waiting).total_seconds() if stand.oldest_waiting else 0.0
        self.oldest.labels(receiver).set(max(0.0, waited))

    def figures(self) -> dict[str, int]:
        """The counts so far, over all receivers."""
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
