"""Key the records of the raw topic by principal: connect, and run `IngestService` until asked to end."""

from __future__ import annotations

from typing import Any

from prometheus_client import REGISTRY

from fingerprint.core.settings import Settings
from fingerprint.streaming.ingest_service import IngestService
from fingerprint.streaming.metrics import IngestMetrics, S3IngestMetrics
from fingerprint.streaming.s3_ingest_service import S3IngestService
from pipelines.runtime import host, wiring
from pipelines.runtime.service import running_service


def run_ingest(settings: Settings, once: bool = False) -> dict[str, Any]:
    """Run `fingerprint ingest` with the adapters that the settings name, and return the figures of `ingest --json`."""
    with (
        wiring.open_consumer(settings.kafka, "ingest") as consumer,
        wiring.open_producer(settings.kafka) as producer,
    ):
        ingest = IngestService(consumer, producer, settings, IngestMetrics(REGISTRY))
        with running_service(settings, ingest.not_ready, ingest.not_alive, "ingest") as stop_requested:
            wiring.warn_of_missing_topics(settings.kafka, settings.kafka.raw_topic)
            return ingest.run(stop_requested, once) | host.resources()


def run_ingest_s3(settings: Settings, url: str, once: bool = False) -> dict[str, Any]:
    """Run `fingerprint ingest --sqs URL` with the adapters that the settings name, and return its figures."""
    settings.sqs.check_buckets()
    with (
        wiring.open_object_queue(url, settings.sqs) as (queue, objects),
        wiring.open_producer(settings.kafka) as producer,
    ):
        ingest = S3IngestService(queue, objects, producer, settings, S3IngestMetrics(REGISTRY))
        with running_service(settings, ingest.not_ready, ingest.not_alive, "ingest") as stop_requested:
            return ingest.run(stop_requested, once) | host.resources()
