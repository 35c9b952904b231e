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

        self.objects = counter("s3_objects", "S3 objects that were read completely.")
        self.tests = counter("test_notifications", "Test notifications of S3, which are deleted.")
        self.kept = counter(
            "retried_notifications",
            "Notifications left in the queue because their object could not be fetched.",
        )
        self.lost = counter(
            "expired_notifications",
            "Notifications whose visibility timeout expired while they were processed, so that another worker may have read them too.",
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
