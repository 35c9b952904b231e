"""Ingest: what a message's own headers say decides nothing about its dead letter."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Headers, Partition
from fingerprint.core.settings import Settings
from fingerprint.streaming.ingest_service import IngestService
from fingerprint.streaming.metrics import IngestMetrics
from tests.support.memory_broker import MemoryBroker
from tests.support.memory_clients import MemoryConsumer, MemoryProducer, on

OWN_HEADERS: Headers = (("reason", b"\xff\x1b[31mall is well"), ("topic", b"\xff"), ("offset", None))


@pytest.mark.parametrize("limit", [1, 100])
def test_a_message_names_neither_the_reason_of_its_dead_letter_nor_ends_its_reader(
    caplog: pytest.LogCaptureFixture, limit: int
) -> None:
    """Its own headers may have the names of a letter's, and bytes that are no text."""
    broker = MemoryBroker()
    settings = Settings.model_validate({"kafka": on(broker), "ingest": {"max_dead_letters": limit}})
    for topic in (settings.kafka.raw_topic, settings.kafka.events_topic, f"{settings.kafka.raw_topic}.dlq"):
        broker.create_topic(topic)
    broker.append(Partition(settings.kafka.raw_topic, 0), b"no record", headers=OWN_HEADERS)
    with MemoryConsumer(settings.kafka) as consumer, MemoryProducer(settings.kafka) as producer:
        ingest = IngestService(consumer, producer, settings, IngestMetrics(CollectorRegistry()))
        if limit == 1:
            with pytest.raises(FingerprintError, match=r"the last: .*JSON"):
                ingest.run(lambda: False, once=True)
        else:
            assert ingest.run(lambda: False, once=True)["messages"] == 1
    assert "all is well" not in caplog.text
