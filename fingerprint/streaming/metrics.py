"""Prometheus metrics of the stream and of both ingests; the same counters are the figures that a run returns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fingerprint.compute.backend import Backend
from fingerprint.core.alert import Alert
from fingerprint.core.ports.message_stream import Partition
from fingerprint.sources.s3_notifications import S3Notification
from fingerprint.streaming.backpressure import DependencyStatus
from fingerprint.streaming.lag_monitor import LagAge, LagMonitorMetrics
from fingerprint.streaming.rekeying import RekeyedBatch
from fingerprint.streaming.s3_objects import ObjectBatch

if TYPE_CHECKING:  # `ingest` imports this module, and needs neither detectors nor SciPy
    from fingerprint.streaming.checkpoints import OwnedPartition
    from fingerprint.streaming.partition_processor import PartitionProcessor

STREAM_PREFIX = "fingerprint_stream"
INGEST_PREFIX = "fingerprint_ingest"
_PARTITION_LABELS = ("topic", "partition")
LAG_SECONDS_HELP = "How long ago the oldest message was written that was not read yet; 0 if all are read."
DEPENDENCIES = ("database", "checkpoints", "clock")  # that may fail while the program goes on
REPORTED_COUNTERS = (
    "messages",
    "events",
    "duplicates",
    "degraded",
    "dead",
    "late",
    "future",
    "misrouted",
    "dropped",
    "forced",
    "over_limit",
    "already_trained",
    "reloaded_buckets",
    "failed_evictions",
    "silent_intervals",
    "verdicts",
    "alerts",
    "checkpoints",
    "checkpoint_failures",
    "pauses",
    "commits_refused",
)


class StreamMetrics:
    """Metrics of `fingerprint stream`; one registry a process, or one a test."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.lag_monitor = LagMonitorMetrics(STREAM_PREFIX, registry)
        self._add_input_counters()
        self._add_result_counters()
        self._add_work_counters()
        self._add_partition_gauges()
        self._add_bank_gauges()
        self.batch_seconds = Histogram(
            f"{STREAM_PREFIX}_batch_duration_seconds",
            "Histogram of the time from a poll to its published results.",
            registry=registry,
        )
        self.checkpoint_seconds = Histogram(
            f"{STREAM_PREFIX}_checkpoint_duration_seconds",
            "Histogram of the time to save one partition; nothing is read during it.",
            registry=registry,
        )
        self.dependency_failing = self._gauge(
            "dependency_unavailable",
            "1 while a dependency (database, checkpoints, clock) fails, and what needs it waits.",
            ("dependency",),
        )
        self.silent_feeds = self._gauge(
            "feeds_with_gap", "Feeds with an open gap; reported by the owner of partition 0."
        )
        self.backend = Gauge(
            "fingerprint_backend_info",
            "1 for the libraries and the device that read and score.",
            ("tables", "arrays", "device"),
            registry=registry,
        )

    def _counter(self, name: str, help: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"{STREAM_PREFIX}_{name}", help, labels, registry=self.registry)

    def _gauge(self, name: str, help: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(f"{STREAM_PREFIX}_{name}", help, labels, registry=self.registry)

    def _add_input_counters(self) -> None:
        """Add counters of messages and events that are read and scored."""
        counter = self._counter
        self.messages = counter("messages", "Messages read.")
        self.dead = counter(
            "dead_letters", "Messages sent to the dead letters: unreadable, or dated in the future."
        )
        self.future = counter("future_events", "Events dated past their arrival, left out.")
        self.misrouted = counter("misrouted_events", "Events whose principal belongs to another partition.")
        self.already_trained = counter(
            "skipped_trained_events", "Events skipped because the bank was trained on them."
        )
        self.duplicates = counter(
            "duplicate_events", "Events dropped because they came before; more of them after a restart."
        )
        self.events = counter("events", "Events scored.")
        self.late = counter("late_events", "Events whose interval had closed before they came.")
        self.forced = counter(
            "forced_events",
            "Events scored before all sources reached their time: stream.max_early_events.",
        )
        self.degraded = counter(
            "fallback_events", "Events scored in process, because Triton was unavailable."
        )

    def _add_result_counters(self) -> None:
        """Add counters of alerts and votes, and of events that can be in none."""
        counter = self._counter
        self.votes = counter("votes", "Votes by detector.", ("detector",))
        self.silent_intervals = counter(
            "activity_drops", "Intervals of a principal with far fewer events than expected."
        )
        self.verdicts = counter("verdicts", "Events that the quorum flagged.")
        self.alerts = counter("alerts_published", "Alerts published, again when they have grown.")
        self.dropped = counter(
            "dropped_pending_events",
            "Events that could wait no longer for a verdict: voting.max_pending_events.",
        )
        self.over_limit = counter(
            "unknown_principal_events_dropped",
            "Events without a vote: voting.max_unknown_principals_per_day.",
        )

    def _add_work_counters(self) -> None:
        """Add metrics of the process: its state, its checkpoints and its pauses."""
        counter = self._counter
        self.reloaded_buckets = counter(
            "restored_hash_buckets",
            "Hash buckets whose evicted state was loaded again; if many, raise stream.max_series.",
        )
        self.failed_evictions = counter(
            "failed_evictions", "Times that state could not be evicted, because the store failed."
        )
        self.checkpoints = counter("checkpoints", "Checkpoints saved.")
        self.checkpoint_failures = counter("checkpoint_failures", "Checkpoints that could not be saved.")
        self.commits_refused = counter(
            "commits_fenced",
            "Commits refused, because the partition had another owner: raise kafka.session_timeout_ms.",
        )
        self.pauses = counter(
            "backpressure_pauses",
            "Pauses because the database was unavailable, the producer full, or messages read one by one.",
        )

    def _add_partition_gauges(self) -> None:
        def gauge(name: str, help: str) -> Gauge:
            return self._gauge(name, help, _PARTITION_LABELS)

        self.lag = gauge("lag_messages", "Messages not read yet; a columnar one holds up to 1,000 records.")
        self.lag_seconds = gauge("lag_seconds", LAG_SECONDS_HELP)
        self.watermark = gauge(
            "watermark_timestamp_seconds",
            "Event time up to which all sources have reported.",
        )
        self.early_events = gauge("early_events", "Events ahead of other sources, not scored yet.")
        self.pending_events = gauge("pending_events", "Events that wait for their interval to close.")
        self.series = gauge("series", "Activity series in memory (400 bytes each).")
        self.checkpoint_bytes = gauge("checkpoint_bytes", "Size of the latest checkpoint.")

    def _add_bank_gauges(self) -> None:
        self.active_bank_versions: list[str] = []
        self.bank = self._gauge("bank_info", "1 for each version that scores.", ("version",))
        self.waiting_for_bank = self._gauge("waiting_for_bank", "1 while `stream --wait` has no bank.")
        self.bank_refused = self._gauge(
            "bank_rejected", "1 while the served bank cannot score, and the one before does."
        )
        self.inference_wrong = self._gauge(
            "inference_mismatch",
            "1 since the inference server gave losses that are not the bank's; it is no longer used.",
        )
        self.bank_trained_until = self._gauge(
            "bank_trained_until_timestamp_seconds", "End of the bank's training span, event time."
        )
        self.bank_drift = self._gauge(
            "bank_drift",
            "Drift from the bank before (`since` is previous) and from one of long ago (reference), by quantile, 0 to 1. "
            "If that of reference climbs slowly, habits may be being taught: fingerprint bank diff.",
            ("since", "quantile"),
        )

    def track_dependencies(self, dependency_status: DependencyStatus) -> None:
        """Report, whenever the metrics are read, whether each dependency fails."""
        for name in DEPENDENCIES:
            self.dependency_failing.labels(name).set_function(partial(dependency_status.__contains__, name))

    def set_backend(self, backend: Backend) -> None:
        """Report the libraries and the device."""
        self.backend.clear()
        self.backend.labels(backend.dataframe_library, backend.array_library, backend.device).set(1)

    def set_active_banks(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Report the banks that score now (two during a swap), and the age and drift of the newest, which is the last one."""
        versions = [manifest["version"] for manifest in manifests]
        if not manifests or versions == self.active_bank_versions:
            return
        self.active_bank_versions, manifest = versions, manifests[-1]
        self.bank.clear()
        self.bank_drift.clear()
        for version in versions:
            self.bank.labels(version).set(1)
        self.bank_trained_until.set(datetime.fromisoformat(manifest["span"][1]).timestamp())
        for since, name in (("previous", "drift"), ("reference", "reference")):
            moved = manifest.get("gate", {}).get(name, {})
            for quantile, value in moved.get("quantiles", {}).items():
                self.bank_drift.labels(since, quantile).set(value)

    def remove_partition(self, partition: Partition) -> None:
        """Remove the gauges of a partition that this process no longer owns."""
        gauges = (self.lag, self.lag_seconds, self.watermark, self.early_events, self.pending_events)
        _remove_labels((*gauges, self.series, self.checkpoint_bytes), partition)

    @contextmanager
    def counting(self, processor: PartitionProcessor) -> Iterator[None]:
        """Add the counts that a processor makes inside the block."""
        before = processor.counter_values()
        yield
        for name, value in processor.counter_values().items():
            getattr(self, name).inc(value - before[name])

    def count_published(self, alerts: Sequence[Alert], votes: pd.DataFrame) -> None:
        """Count published alerts and votes."""
        self.alerts.inc(len(alerts))
        for detector, count in votes["detector"].value_counts().items():
            self.votes.labels(str(detector)).inc(int(count))

    def update_partitions(
        self,
        owned: Mapping[Partition, OwnedPartition],
        lag: Mapping[Partition, int],
        lag_age: LagAge,
    ) -> None:
        """Set the gauges of the owned partitions."""
        for partition, each in owned.items():
            state = each.processor.state
            self.lag.labels(*partition).set(lag.get(partition, 0))
            self.lag_seconds.labels(*partition).set_function(partial(lag_age.seconds, partition))
            self.watermark.labels(*partition).set(state.scorer.watermark)
            self.early_events.labels(*partition).set(len(state.early_events))
            self.pending_events.labels(*partition).set(len(state.pending))
            self.series.labels(*partition).set(len(state.scorer.series.since))

    def figures(self) -> dict[str, int]:
        """Return the counts so far."""
        return {name: counter_value(getattr(self, name)) for name in REPORTED_COUNTERS}


class IngestMetrics:
    """Metrics of `fingerprint ingest`; one registry a process, or one a test."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        counter = self._counter
        self.messages = counter("messages", "Messages read, written and committed.")
        self.records = counter("records", "Records sent to the events topic.")
        self.dead = counter("dead_letters", "Messages of which something could not be read.")
        self.skipped = counter(
            "skipped_messages", "What is no event by design: digests, insights, notifications."
        )
        self.empty = counter("empty_messages", "Messages with nothing in them.")
        self.future = counter("future_records", "Records dated past their message's arrival, not sent on.")
        self.pauses = counter("backpressure_pauses", "Pauses because the producer's buffer was full.")
        self.commits_refused = counter(
            "commits_fenced",
            "Commits refused, because the partition had another owner: raise kafka.session_timeout_ms.",
        )
        self.batch_seconds = Histogram(
            f"{INGEST_PREFIX}_batch_duration_seconds",
            "Histogram of the time to read, write and commit a batch.",
            registry=registry,
        )
        self.lag_monitor = LagMonitorMetrics(INGEST_PREFIX, registry)
        self.lag = self._gauge("lag_messages", "Messages not read yet.")
        self.lag_seconds = self._gauge("lag_seconds", LAG_SECONDS_HELP)
        self.watermarks = self._gauge("watermark_timestamp_seconds", "Latest event time seen.")

    def _counter(self, name: str, help: str) -> Counter:
        return Counter(f"{INGEST_PREFIX}_{name}", help, registry=self.registry)

    def _gauge(self, name: str, help: str) -> Gauge:
        return Gauge(f"{INGEST_PREFIX}_{name}", help, _PARTITION_LABELS, registry=self.registry)

    def count_batch(self, batch: RekeyedBatch) -> None:
        """Count a batch that was written and committed."""
        self.messages.inc(batch.completed_until - batch.begin)
        self.records.inc(sum(each.records for each in batch.records))
        self.dead.inc(len(batch.dead_letters))
        self.skipped.inc(batch.skipped)
        self.empty.inc(batch.empty)
        self.future.inc(batch.future_dated)

    def set_watermarks(self, watermarks: Mapping[Partition, int]) -> None:
        """Set the watermarks, in ms since 1970."""
        for partition, mark in watermarks.items():
            self.watermarks.labels(*partition).set(mark / 1000)

    def set_lag(self, lag: Mapping[Partition, int], lag_age: LagAge) -> None:
        """Set the lag, in messages and in seconds; these go on between two readings."""
        for partition, messages in lag.items():
            self.lag.labels(*partition).set(messages)
            self.lag_seconds.labels(*partition).set_function(partial(lag_age.seconds, partition))

    def remove_partitions(self, partitions: Collection[Partition]) -> None:
        """Remove the gauges of partitions that this process no longer owns."""
        for partition in partitions:
            _remove_labels((self.lag, self.lag_seconds, self.watermarks), partition)

    def figures(self) -> dict[str, int]:
        """Return the counts so far."""
        return {
            "messages": counter_value(self.messages),
            "records": counter_value(self.records),
            "dead_letters": counter_value(self.dead),
            "skipped": counter_value(self.skipped),
            "empty": counter_value(self.empty),
            "future_dated": counter_value(self.future),
            "pauses": counter_value(self.pauses),
            "commits_refused": counter_value(self.commits_refused),
        }


class S3IngestMetrics(IngestMetrics):
    """Metrics of `fingerprint ingest --sqs`, where a message is an S3 notification."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self.objects = self._counter("s3_objects", "Objects read to their end.")
        self.tests = self._counter("test_notifications", "Test notifications of S3, deleted.")
        self.deferred = self._counter(
            "retried_notifications",
            "Notifications left in the queue: their object could not be read for now.",
        )
        self.lost = self._counter(
            "expired_notifications",
            "Visibility timeouts that expired: raise sqs.visibility_timeout_seconds.",
        )

    def count_notification(self, notification: S3Notification) -> None:
        """Count a notification."""
        self.skipped.inc(notification.skipped)
        self.tests.inc(notification.is_test)

    def count_object_batch(self, batch: ObjectBatch) -> None:
        """Count a part of an object."""
        self.records.inc(sum(each.records for each in batch.records))
        self.skipped.inc(batch.skipped)
        self.future.inc(batch.future_dated)

    def figures(self) -> dict[str, int]:
        """Return the counts so far."""
        own = {"objects": self.objects, "tests": self.tests, "deferred": self.deferred, "lost": self.lost}
        return super().figures() | {name: counter_value(counter) for name, counter in own.items()}


def counter_value(counter: Counter) -> int:
    """Return the value of a counter without labels."""
    samples = (sample for metric in counter.collect() for sample in metric.samples)
    return int(next(sample.value for sample in samples if sample.name.endswith("_total")))


def _remove_labels(gauges: Iterable[Gauge], partition: Partition) -> None:
    labels = dict(zip(_PARTITION_LABELS, map(str, partition), strict=True))
    for gauge in gauges:
        gauge.remove_by_labels(labels)
