"""What `fingerprint stream` counts, for Prometheus and for its own figures."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

import pandas as pd
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fingerprint.compute.backend import Backend
from fingerprint.core.alert import Alert
from fingerprint.core.ports import Partition
from fingerprint.sources.cloudtrail.s3_notifications import S3Notification
from fingerprint.streaming.backpressure import DependencyStatus
from fingerprint.streaming.checkpoints import OwnedPartition
from fingerprint.streaming.lag_monitor import LagMonitorMetrics
from fingerprint.streaming.partition_processor import PartitionProcessor
from fingerprint.streaming.rekeying import RekeyedBatch
from fingerprint.streaming.s3_objects import ObjectBatch

STREAM_PREFIX = "fingerprint_stream"
_PARTITION_LABELS = ("topic", "partition")
DEPENDENCIES = ("desk", "snapshots")  # that may fail while the program goes on
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
            return Counter(f"{STREAM_PREFIX}_{name}", help, labels, registry=registry)

        def gauge(name: str, help: str) -> Gauge:
            return Gauge(f"{STREAM_PREFIX}_{name}", help, _PARTITION_LABELS, registry=registry)

        self.active_bank_versions: list[str] = []  # versions of banks
        self.messages = counter("messages", "Messages read.")
        self.events = counter("events", "Events measured.")
        self.repeats = counter("repeats", "Events that came before, dropped.")
        self.degraded = counter("degraded_events", "Events measured in process, because the server was away.")
        self.dead = counter("dead_letters", "Messages of which something could not be read or believed.")
        self.learned = counter("learned_events", "Events that the bank has learned already, passed over.")
        self.unspilled = counter("unspilled", "Times that state could not be put away: the store was.")
        self.fetched = counter("fetched_homes", "Homes whose state was put away and came back.")
        self.silences = counter("silences", "Intervals in which far fewer events came than expected.")
        self.late = counter("late_events", "Events whose interval had closed before they came.")
        self.future = counter("future_events", "Events dated past their arrival, left out.")
        self.strays = counter("stray_events", "Events whose principal belongs to another partition.")
        self.dropped = counter("dropped_events", "Events that could not wait for a verdict: too many did.")
        self.refused = counter("refused_events", "Events of more strangers than a day may have: no vote.")
        self.hurried = counter("hurried_events", "Events measured before all sources had come so far.")
        self.verdicts = counter("verdicts", "Events that the quorum flagged.")
        self.alerts = counter("alerts_told", "Alerts told, again when they have grown.")
        self.votes = counter("votes", "Votes by detector.", ("detector",))
        self.pauses = counter(
            "pauses", "Times the consumer was silenced because desk or producer had no room."
        )
        self.commits_refused = counter("commits_refused", "Commits refused: the partition had another owner.")
        self.snapshots = counter("snapshots", "Snapshots saved.")
        self.snapshot_failures = counter("snapshot_failures", "Snapshots that could not be saved.")
        self.batch_seconds = Histogram(
            f"{STREAM_PREFIX}_batch_seconds",
            "From a poll's messages to what they lead to, told.",
            registry=registry,
        )
        self.snapshot_seconds = Histogram(
            f"{STREAM_PREFIX}_snapshot_seconds", "Saving one partition's snapshot.", registry=registry
        )
        self.lag_monitor = LagMonitorMetrics(STREAM_PREFIX, registry)
        self.lag = gauge("lag_messages", "Messages not read yet.")
        self.watermark = gauge("watermark_timestamp_seconds", "How far event time has come.")
        self.early_events = gauge("held_events", "Events that came ahead of other sources.")
        self.pending_events = gauge("waiting_events", "Events that wait for their interval to close.")
        self.series = gauge("series_rows", "Series in memory.")
        self.snapshot_bytes = gauge("snapshot_bytes", "Size of the last snapshot.")
        self.silent_feeds = Gauge(
            f"{STREAM_PREFIX}_silent_feeds",
            "Accounts, regions and sources that are silent now; said by whoever has partition 0.",
            registry=registry,
        )
        self.bank = Gauge(
            f"{STREAM_PREFIX}_bank_info", "1 for the bank that judges.", ("version",), registry=registry
        )
        self.backend = Gauge(
            "fingerprint_backend_info",
            "1 for the libraries and the device that read and score.",
            ("tables", "arrays", "device"),
            registry=registry,
        )
        self.waiting_for_bank = Gauge(
            f"{STREAM_PREFIX}_waiting_for_bank",
            "1 while there is no bank yet, and it is waited for.",
            registry=registry,
        )
        self.bank_refused = Gauge(
            f"{STREAM_PREFIX}_bank_refused",
            "1 while the bank that is served cannot judge, and the one before does.",
            registry=registry,
        )
        self.losses_wrong = Gauge(
            f"{STREAM_PREFIX}_losses_wrong",
            "1 since the server answered with losses that are not the bank's; it is asked no more.",
            registry=registry,
        )
        self.bank_learned_until = Gauge(
            f"{STREAM_PREFIX}_bank_learned_until_seconds",
            "End of what it learned, event time.",
            registry=registry,
        )
        self.bank_drift = Gauge(
            f"{STREAM_PREFIX}_bank_drift",
            "How far fingerprints moved from the bank served before, and from one of long ago: 0 the same, 1 all.",
            ("since", "quantile"),
            registry=registry,
        )
        self.dependency_failing = Gauge(
            f"{STREAM_PREFIX}_in_trouble",
            "1 while a door fails, and what needs it waits.",
            ("door",),
            registry=registry,
        )

    def track_dependencies(self, dependency_status: DependencyStatus) -> None:
        """Say of each door whether it is in trouble, whenever somebody asks."""
        for door in DEPENDENCIES:
            self.dependency_failing.labels(door).set_function(partial(dependency_status.__contains__, door))

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
        for since, name in (("before", "drift"), ("long ago", "frozen")):
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
            state = each.processor.state
            self.lag.labels(*partition).set(lag.get(partition, 0))
            self.watermark.labels(*partition).set(state.scorer.watermark)
            self.early_events.labels(*partition).set(len(state.early_events))
            self.pending_events.labels(*partition).set(sum(map(len, state.pending)))
            self.series.labels(*partition).set(len(state.scorer.series.since))

    def figures(self) -> dict[str, int]:
        """The counts so far."""
        return {name: int(counter_value_without_labels(getattr(self, name))) for name in REPORTED_COUNTERS}


def counter_value_without_labels(counter: Counter) -> float:
    """What a counter without labels stands at."""
    return next(s.value for metric in counter.collect() for s in metric.samples if s.name.endswith("_total"))


INGEST_PREFIX = "fingerprint_ingest"


class IngestMetrics:
    """One registry a process, or one a test."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help: str) -> Counter:
            return Counter(f"{INGEST_PREFIX}_{name}", help, registry=registry)

        self.messages = counter("messages", "Messages read, written and committed.")
        self.records = counter("records", "Records sent to the events topic.")
        self.dead = counter("dead_letters", "Messages of which something could not be read.")
        self.skipped = counter("skipped", "What is no event by design: digests, insights, notices.")
        self.empty = counter("empty_messages", "Messages with nothing in them.")
        self.future = counter("future_records", "Records dated past their message's arrival, not sent on.")
        self.pauses = counter("pauses", "Times the consumer was silenced because the producer was full.")
        self.commits_refused = counter("commits_refused", "Commits refused: the partition had another owner.")
        self.batch_seconds = Histogram(
            f"{INGEST_PREFIX}_batch_seconds", "Reading, writing and committing one batch.", registry=registry
        )
        self.lag = Gauge(
            f"{INGEST_PREFIX}_lag_messages", "Messages not read yet.", _PARTITION_LABELS, registry=registry
        )
        self.lag_monitor = LagMonitorMetrics(INGEST_PREFIX, registry)
        self.watermarks = Gauge(
            f"{INGEST_PREFIX}_watermark_timestamp_seconds",
            "Latest event time seen.",
            _PARTITION_LABELS,
            registry=registry,
        )

    def count_batch(self, batch: RekeyedBatch) -> None:
        self.messages.inc(batch.completed_until - batch.begin)
        self.records.inc(len(batch.records))
        self.dead.inc(len(batch.dead_letters))
        self.skipped.inc(batch.skipped)
        self.empty.inc(batch.empty)
        self.future.inc(batch.future_dated)

    def set_watermarks(self, watermarks: Mapping[Partition, int]) -> None:
        for partition, mark in watermarks.items():
            self.watermarks.labels(*partition).set(mark / 1000)

    def set_lag(self, lag: Mapping[Partition, int]) -> None:
        for partition, messages in lag.items():
            self.lag.labels(*partition).set(messages)

    def remove_partitions(self, partitions: Collection[Partition]) -> None:
        """Gauges of partitions that others read now must not stand still here."""
        for partition in partitions:
            for gauge in (self.lag, self.watermarks):
                gauge.remove_by_labels(dict(zip(_PARTITION_LABELS, map(str, partition), strict=True)))

    def figures(self) -> dict[str, int]:
        """The counts so far."""
        counters = {
            "messages": self.messages,
            "records": self.records,
            "dead_letters": self.dead,
            "skipped": self.skipped,
            "empty": self.empty,
            "future_dated": self.future,
            "pauses": self.pauses,
            "commits_refused": self.commits_refused,
        }
        return {name: int(counter_value(counter)) for name, counter in counters.items()}


def counter_value(counter: Counter) -> float:
    return next(s.value for metric in counter.collect() for s in metric.samples if s.name.endswith("_total"))


class S3IngestMetrics(IngestMetrics):
    """One registry a process, or one a test."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)

        def counter(name: str, help: str) -> Counter:
            return Counter(f"{INGEST_PREFIX}_{name}", help, registry=registry)

        self.objects = counter("objects", "Objects read to their end.")
        self.tests = counter("test_notices", "Notices that only try the road, deleted.")
        self.kept = counter(
            "kept_notices", "Notices left in the queue: their object could not be had for now."
        )
        self.lost = counter(
            "lost_notices", "Notices that another worker may have read too: not held until the end."
        )

    def count_notification(self, notice: S3Notification) -> None:
        self.skipped.inc(notice.skipped)
        self.tests.inc(notice.is_test)

    def count_object_piece(self, piece: ObjectBatch) -> None:
        self.records.inc(len(piece.records))
        self.skipped.inc(piece.skipped)
        self.future.inc(piece.future_dated)

    def figures(self) -> dict[str, int]:
        own = {"objects": self.objects, "tests": self.tests, "kept": self.kept, "lost": self.lost}
        return super().figures() | {name: int(counter_value(counter)) for name, counter in own.items()}
