"""Metrics of `fingerprint retrain`: trainings by outcome, their times, and the schedule."""

from __future__ import annotations

from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge

from fingerprint.core.settings import Triton

OUTCOMES = ("promoted", "rejected", "failed")
_PREFIX = "fingerprint_retrain"


class RetrainMetrics:
    """Metrics of `retrain`; a process, or a test, has one registry. Those of Triton are left out if no server is set."""

    def __init__(self, registry: CollectorRegistry, triton: Triton) -> None:
        def gauge(name: str, help: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", help, registry=registry)

        self.trainings = Counter(
            f"{_PREFIX}_trainings",
            "Trainings by outcome: promoted, rejected by the promotion gate, or failed.",
            ("outcome",),
            registry=registry,
        )
        for outcome in OUTCOMES:
            self.trainings.labels(outcome)
        self.last_attempt = gauge(
            "last_attempt_timestamp_seconds", "Start of the latest training, in seconds since 1970."
        )
        self.last_success = gauge(
            "last_success_timestamp_seconds",
            "End of the latest training that completed, in seconds since 1970.",
        )
        self.last_seconds = gauge(
            "last_duration_seconds",
            "Duration of the latest training; if it nears the interval, use more cores or fewer history days.",
        )
        self.history_days = gauge(
            "history_days",
            "Days of events that the topic holds; the first bank needs retraining.min_history_days.",
        )
        self.due = gauge(
            "due_timestamp_seconds",
            "Time at which the next training is due by the schedule, in seconds since 1970: in the past while trainings fail, "
            "which are tried again later; 0 if unknown.",
        )
        self.triton_loaded = Gauge(
            f"{_PREFIX}_triton_loaded",
            "Whether Triton has loaded the served bank: 1 if so.",
            registry=registry if triton.url else None,
        )

    def set_schedule(self, trained: datetime | None, due: datetime | None, held_days: float | None) -> None:
        """Set the gauges of the schedule."""
        self.last_success.set(trained.timestamp() if trained else 0)
        self.due.set(due.timestamp() if due else 0)
        self.history_days.set(held_days or 0)

    def figures(self) -> dict[str, int]:
        """Return the counts so far."""
        samples = {
            sample.labels["outcome"]: sample.value
            for metric in self.trainings.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        }
        return {outcome: int(samples[outcome]) for outcome in OUTCOMES}
