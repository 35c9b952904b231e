"""What `fingerprint ingest --sqs` counts beyond what ingest counts; a message is a notice here."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from fingerprint.sources.cloudtrail.s3_notifications import S3Notification
from fingerprint.streaming.ingest_metrics import PREFIX, IngestMetrics, counter_value
from fingerprint.streaming.s3_objects import ObjectBatch


class S3IngestMetrics(IngestMetrics):
    """One registry a process, or one a test."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)

        def counter(name: str, help: str) -> Counter:
            return Counter(f"{PREFIX}_{name}", help, registry=registry)

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
