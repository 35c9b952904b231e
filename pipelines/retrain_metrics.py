"""What `fingerprint retrain` counts, for Prometheus and for its own figures."""

from __future__ import annotations

from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge

from fingerprint.core.settings import Triton

_PREFIX = "fingerprint_retrain"
OUTCOMES = ("served", "refused", "failed")


class RetrainMetrics:
    """One registry a process, or one a test. Where no Triton server is named nothing is said of one."""

    def __init__(self, registry: CollectorRegistry, triton: Triton) -> None:
        def gauge(name: str, help: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", help, registry=registry)

        self.trainings = Counter(
            f"{_PREFIX}_trainings",
            "Trainings by what became of them; refused: by the gate.",
            ("outcome",),
            registry=registry,
        )
        for outcome in OUTCOMES:
            self.trainings.labels(outcome)
        self.last_attempt = gauge("last_attempt_timestamp_seconds", "When the last training began.")
        self.last_success = gauge(
            "last_success_timestamp_seconds", "When the last training ended well, served or refused."
        )
        self.last_seconds = gauge("last_seconds", "How long the last training took.")
        self.history_days = gauge("history_days", "Days of events that the topic holds.")
        self.due = gauge("due_timestamp_seconds", "When the next training is due; 0 while nobody can say.")
        self.triton_loaded = Gauge(
            f"{_PREFIX}_triton_loaded",
            "1 while the Triton server has the bank that is served.",
            registry=registry if triton.url else None,
        )

    def set_schedule(self, trained: datetime | None, due: datetime | None, held_days: float | None) -> None:
        """How it stands."""
        self.last_success.set(trained.timestamp() if trained else 0)
        self.due.set(due.timestamp() if due else 0)
        self.history_days.set(held_days or 0)

    def figures(self) -> dict[str, int]:
        """The counts so far."""
        samples = {
            sample.labels["outcome"]: sample.value
            for metric in self.trainings.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        }
        return {outcome: int(samples[outcome]) for outcome in OUTCOMES}
