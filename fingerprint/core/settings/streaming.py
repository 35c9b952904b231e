"""Settings of the streaming programs: ingest, stream, feed gaps, checkpoints, health (docs/explanation/streaming.md)."""

from __future__ import annotations

from pydantic import Field

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings.base import Section

DEAD_LETTER_WINDOW = 1_000  # latest messages over which `fingerprint ingest` counts dead letters


class Ingest(Section):
    """Limits of dead letters at which `fingerprint ingest` stops. What cannot be read becomes one, in `<topic>.dlq`."""

    max_dead_letters: int = Field(
        100,
        gt=0,
        le=DEAD_LETTER_WINDOW,
        description="Number of dead letters among the last 1,000 messages from which ingest stops, if their share is "
        "exceeded too.",
    )
    max_dead_letter_share: float = Field(
        0.5,
        ge=0,
        lt=1,
        description="Share of dead letters among the last 1,000 messages above which ingest stops, if their number is "
        "reached too.",
    )


class Sqs(Section):
    """Notifications of S3 objects from an SQS queue (`fingerprint ingest --sqs`).

    Region, endpoint and credentials are boto3's own.
    """

    visibility_timeout_seconds: int = Field(
        120,
        ge=2,
        le=43_200,
        description="Seconds for which a received message stays hidden from other workers (VisibilityTimeout); it is "
        "extended while the object is read.",
    )
    allowed_buckets: tuple[str, ...] = Field(
        (),
        description='Buckets whose objects are read; "*" allows every bucket that the role may read.',
    )

    def allows_bucket(self, bucket: str) -> bool:
        """Return whether objects of this bucket may be read."""
        return bucket in self.allowed_buckets or "*" in self.allowed_buckets

    def check_buckets(self) -> None:
        """Raise FingerprintError if no bucket is named: who may write to the queue would choose what is read."""
        if not self.allowed_buckets:
            raise FingerprintError(
                "sqs.allowed_buckets is empty: name the buckets whose objects may be read "
                "(FINGERPRINT_SQS__ALLOWED_BUCKETS=my-trail-bucket), because a notification may name any; * stands for "
                "every bucket that the role may read"
            )


class Stream(Section):
    """Event time and bounds of memory of `fingerprint stream`."""

    source_idle_seconds: float = Field(
        120.0,
        gt=0,
        description="Seconds of silence after which the watermark no longer waits for a source, while others continue.",
    )
    max_early_events: int = Field(
        100_000,
        gt=0,
        description="Largest number of events ahead of the watermark that one partition holds.",
    )
    max_series: int = Field(
        2_000_000,
        gt=0,
        description="Number of activity series of one partition in memory, at about 400 bytes each; the longest "
        "inactive hash buckets beyond it are evicted to the checkpoint store.",
    )
    database_timeout_seconds: float = Field(
        600.0,
        gt=0,
        description="Seconds that a stream waits for an unavailable database before it ends.",
    )


class FeedGaps(Section):
    """Conditions to report missing events of an account, region or source as a feed gap (docs/explanation/detection.md)."""

    threshold: float = Field(
        4.0,
        gt=0,
        description="Threshold of a feed gap; its square is the smallest number of missing events that make one.",
    )


class Checkpoints(Section):
    """Place and interval of the checkpoints of a stream's partitions."""

    url: str = Field(
        "checkpoints",
        description="Folder, or URL opened by fsspec (s3://bucket/path), that holds the checkpoints.",
    )
    interval_seconds: float = Field(30.0, gt=0, description="Seconds between two checkpoints of a partition.")


class Health(Section):
    """The health endpoints of long-running programs."""

    host: str = Field("127.0.0.1", description="Address on which /livez, /readyz and /metrics listen.")
    port: int = Field(
        9464,
        ge=0,
        le=65535,
        description="Port on which /livez, /readyz and /metrics listen; 0 takes a free one.",
    )
