"""What `fingerprint ingest` counts, for Prometheus and for its own figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fingerprint.core.ports import Partition
from fingerprint.streaming.lag_monitor import LagMonitorMetrics
from fingerprint.streaming.rekeying import RekeyedBatch

PREFIX = "fingerprint_ingest"
_PARTITION_LABELS = ("topic", "partition")


class IngestMetrics:
    """One registry a process, or one a test."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help: str) -> Counter:
            return Counter(f"{PREFIX}_{name}", help, registry=registry)

        self.messages = counter("messages", "Messages read, written and committed.")
        self.records = counter("records", "Records sent to the events topic.")
        self.dead = counter("dead_letters", "Messages of which something could not be read.")
        self.skipped = counter("skipped", "What is no event by design: digests, insights, notices.")
        self.empty = counter("empty_messages", "Messages with nothing in them.")
        self.future = counter("future_records", "Records dated past their message's arrival, not sent on.")
        self.pauses = counter("pauses", "Times the consumer was silenced because the producer was full.")
        self.commits_refused = counter("commits_refused", "Commits refused: the partition had another owner.")
        self.batch_seconds = Histogram(
            f"{PREFIX}_batch_seconds", "Reading, writing and committing one batch.", registry=registry
        )
        self.lag = Gauge(
            f"{PREFIX}_lag_messages", "Messages not read yet.", _PARTITION_LABELS, registry=registry
        )
        self.lag_monitor = LagMonitorMetrics(PREFIX, registry)
        self.watermarks = Gauge(
            f"{PREFIX}_watermark_timestamp_seconds",
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
