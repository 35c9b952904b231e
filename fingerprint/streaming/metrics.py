"""What `fingerprint stream` counts, for Prometheus and for its own figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

import pandas as pd
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fingerprint.compute.backend import Backend
from fingerprint.core.alert import Alert
from fingerprint.core.ports import Partition
from fingerprint.streaming.checkpoints import OwnedPartition
from fingerprint.streaming.dependency_status import DependencyStatus
from fingerprint.streaming.lag_monitor import LagMonitorMetrics
from fingerprint.streaming.partition_processor import PartitionProcessor

_PREFIX = "fingerprint_stream"
_PARTITION_LABELS = ("topic", "partition")
DEPENDENCIES = ("database", "checkpoints")  # that may fail while the program goes on
REPORTED_COUNTERS = (
    *("messages", "events", "repeats", "degraded", "dead", "late", "future", "strays", "dropped", "hurried"),
    "refused",
    *("learned", "fetched", "unspilled", "silences", "verdicts", "alerts", "snapshots", "snapshot_failures"),
    *("pauses", "commits_refused"),
)


class StreamMetrics:
    """One registry a process, or one a test."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"{_PREFIX}_{name}", help, labels, registry=registry)

        def gauge(name: str, help: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", help, _PARTITION_LABELS, registry=registry)

        self.active_bank_versions: list[str] = []  # versions of banks
        self.messages = counter("messages", "Messages that were read.")
        self.events = counter("events", "Events that were scored.")
        self.repeats = counter("duplicate_events", "Events dropped because their id was already processed.")
        self.degraded = counter("fallback_events", "Events scored in process because Triton was unavailable.")
        self.dead = counter(
            "dead_letters", "Messages with a part that could not be parsed or is dated in the future."
        )
        self.learned = counter(
            "skipped_trained_events", "Events skipped because they precede the bank's training cut-off."
        )
        self.unspilled = counter(
            "failed_evictions", "Evictions of state that failed because the checkpoint store was unavailable."
        )
        self.fetched = counter(
            "restored_hash_buckets", "Hash buckets of evicted state that were loaded again."
        )
        self.silences = counter(
            "activity_drops", "Intervals with far fewer events of an entity than expected."
        )
        self.late = counter("late_events", "Events that arrived after their interval had closed.")
        self.future = counter("future_events", "Events dated after their arrival, which are not scored.")
        self.strays = counter(
            "misrouted_events", "Events read from a partition that is not their principal's."
        )
        self.dropped = counter(
            "dropped_pending_events",
            "Events with a vote that were dropped because too many events were pending.",
        )
        self.refused = counter(
            "unknown_principal_events_dropped",
            "Events without a vote because too many unknown principals had votes on that day.",
        )
        self.hurried = counter(
            "forced_events",
            "Events scored before all sources had reached their time, because too many early events were held.",
        )
        self.verdicts = counter("verdicts", "Events that the quorum flagged.")
        self.alerts = counter(
            "alerts_published", "Alerts that were published; an updated alert counts again."
        )
        self.votes = counter("votes", "Votes by detector.", ("detector",))
        self.pauses = counter(
            "backpressure_pauses",
            "Times that reading was paused because the database was unavailable or the producer's buffer was full.",
        )
        self.commits_refused = counter(
            "commits_fenced", "Commits refused because the partition had another owner."
        )
        self.snapshots = counter("checkpoints", "Checkpoints that were saved.")
        self.snapshot_failures = counter("checkpoint_failures", "Checkpoints that could not be saved.")
        self.batch_seconds = Histogram(
            f"{_PREFIX}_batch_duration_seconds",
            "Time from a poll to the publication of its results, in seconds.",
            registry=registry,
        )
        self.snapshot_seconds = Histogram(
            f"{_PREFIX}_checkpoint_duration_seconds",
            "Time to save the checkpoint of one partition, in seconds.",
            registry=registry,
        )
        self.lag_monitor = LagMonitorMetrics(_PREFIX, registry)
        self.lag = gauge("lag_messages", "Messages of a partition that are not read yet.")
        self.watermark = gauge(
            "watermark_timestamp_seconds",
            "Watermark of a partition: event time up to which all sources have reported, in seconds since 1970.",
        )
        self.early_events = gauge(
            "early_events", "Events of a partition that are ahead of the watermark and held."
        )
        self.pending_events = gauge(
            "pending_events", "Events with a vote that wait for their interval to close."
        )
        self.series = gauge("series", "Activity series of a partition in memory.")
        self.snapshot_bytes = gauge(
            "checkpoint_bytes", "Size of the latest checkpoint of a partition, in bytes."
        )
        self.silent_feeds = Gauge(
            f"{_PREFIX}_feeds_with_gap",
            "Accounts, regions and sources with an open feed gap, reported by the owner of partition 0.",
            registry=registry,
        )
        self.bank = Gauge(
            f"{_PREFIX}_bank_info",
            "Version of the bank that scores; always 1.",
            ("version",),
            registry=registry,
        )
        self.backend = Gauge(
            "fingerprint_backend_info",
            "Libraries and device that read and score; always 1.",
            ("tables", "arrays", "device"),
            registry=registry,
        )
        self.waiting_for_bank = Gauge(
            f"{_PREFIX}_waiting_for_bank",
            "Whether the program waits for a first bank: 1 if it does.",
            registry=registry,
        )
        self.bank_refused = Gauge(
            f"{_PREFIX}_bank_rejected",
            "Whether the served bank cannot be used and the previous one still scores: 1 if so.",
            registry=registry,
        )
        self.losses_wrong = Gauge(
            f"{_PREFIX}_inference_mismatch",
            "Whether Triton returned losses that differ from the bank's: 1 if so, until restart; it is not used any more.",
            registry=registry,
        )
        self.bank_learned_until = Gauge(
            f"{_PREFIX}_bank_trained_until_timestamp_seconds",
            "Event time up to which the bank was trained, in seconds since 1970.",
            registry=registry,
        )
        self.bank_drift = Gauge(
            f"{_PREFIX}_bank_drift",
            "Distance of the fingerprints from those of an earlier bank, from 0 (equal) to 1.",
            ("since", "quantile"),
            registry=registry,
        )
        self.dependency_failing = Gauge(
            f"{_PREFIX}_dependency_unavailable",
            "Whether a dependency fails and work that needs it waits: 1 if so.",
            ("dependency",),
            registry=registry,
        )

    def track_dependencies(self, dependency_status: DependencyStatus) -> None:
        """Export for each dependency whether it fails, read when the metrics are scraped."""
        for dependency in DEPENDENCIES:
            self.dependency_failing.labels(dependency).set_function(
                partial(dependency_status.__contains__, dependency)
            )

    def set_backend(self, backend: Backend) -> None:
        self.backend.clear()
        self.backend.labels(backend.dataframe_library, backend.array_library, backend.device).set(1)

    def set_active_banks(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Which banks judge now (while one takes over, two); how old the newest is, the last one, and how far it came."""
        versions = [manifest["version"] for manifest in manifests]
        if not manifests or versions == self.active_bank_versions:
            return
        self.active_bank_versions, manifest = versions, manifests[-1]
        self.bank.clear()
        self.bank_drift.clear()
        for version in versions:
            self.bank.labels(version).set(1)
        self.bank_learned_until.set(datetime.fromisoformat(manifest["span"][1]).timestamp())
        for since, name in (("previous", "drift"), ("reference", "frozen")):
            moved = manifest.get("gate", {}).get(name, {})
            for quantile, value in moved.get("quantiles", {}).items():
                self.bank_drift.labels(since, quantile).set(value)

    def remove_partition(self, partition: Partition) -> None:
        """Gauges of a partition that others read now must not stand still here."""
        place = dict(zip(_PARTITION_LABELS, map(str, partition), strict=True))
        for each in (
            self.lag,
            self.watermark,
            self.early_events,
            self.pending_events,
            self.series,
            self.snapshot_bytes,
        ):
            each.remove_by_labels(place)

    @contextmanager
    def counting(self, processor: PartitionProcessor) -> Iterator[None]:
        """What a keeper counts meanwhile."""
        before = processor.counter_values()
        yield
        for name, value in processor.counter_values().items():
            getattr(self, name).inc(value - before[name])

    def count_published(self, alerts: Sequence[Alert], votes: pd.DataFrame) -> None:
        """What was told."""
        self.alerts.inc(len(alerts))
        for detector, count in votes["detector"].value_counts().items():
            self.votes.labels(str(detector)).inc(int(count))

    def update_partitions(
        self, owned: Mapping[Partition, OwnedPartition], lag: Mapping[Partition, int]
    ) -> None:
        """How the partitions stand, and what their keepers have counted."""
        for partition, each in owned.items():
            road = each.processor.pipeline
            self.lag.labels(*partition).set(lag.get(partition, 0))
            self.watermark.labels(*partition).set(road.state.watermark)
            self.early_events.labels(*partition).set(len(each.processor.early_events))
            self.pending_events.labels(*partition).set(sum(map(len, road.scorer.pending)))
            self.series.labels(*partition).set(len(road.state.series.since))

    def figures(self) -> dict[str, int]:
        """The counts so far."""
        return {name: int(counter_value_without_labels(getattr(self, name))) for name in REPORTED_COUNTERS}


def counter_value_without_labels(counter: Counter) -> float:
    """What a counter without labels stands at."""
    return next(s.value for metric in counter.collect() for s in metric.samples if s.name.endswith("_total"))
