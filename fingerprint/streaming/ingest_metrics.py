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

        self.messages = counter("messages", "Messages that were read, forwarded and committed.")
        self.records = counter("records", "Records sent to the events topic.")
        self.dead = counter("dead_letters", "Messages with a part that could not be parsed.")
        self.skipped = counter(
            "skipped_messages", "Messages that are no events by design: digests, insights and notifications."
        )
        self.empty = counter("empty_messages", "Messages without content.")
        self.future = counter(
            "future_records", "Records dated after their message's arrival, which are not forwarded."
        )
        self.pauses = counter(
            "backpressure_pauses", "Times that reading was paused because the producer's buffer was full."
        )
        self.commits_refused = counter(
            "commits_fenced", "Commits refused because the partition had another owner."
        )
        self.batch_seconds = Histogram(
            f"{PREFIX}_batch_duration_seconds",
            "Time to read, forward and commit one batch, in seconds.",
            registry=registry,
        )
        self.lag = Gauge(
            f"{PREFIX}_lag_messages",
            "Messages of a partition that are not read yet.",
            _PARTITION_LABELS,
            registry=registry,
        )
        self.lag_monitor = LagMonitorMetrics(PREFIX, registry)
        self.watermarks = Gauge(
            f"{PREFIX}_watermark_timestamp_seconds",
            "Latest event time seen in a partition, in seconds since 1970.",
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
