"""Which door a program is given: the one place that chooses between the clients of Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fingerprint.domain import FingerprintError
from fingerprint.ports import Consumer, Producer, Undelivered
from fingerprint.settings import Kafka


@contextmanager
def consumer(settings: Kafka, purpose: str) -> Iterator[Consumer]:
    """A member of the group `<group>-<purpose>`: programs that read different topics must not share one."""
    with _needs_client():
        from fingerprint.edges.kafka import KafkaConsumer
    opened = KafkaConsumer(settings.model_copy(update={"group": f"{settings.group}-{purpose}"}))
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def producer(settings: Kafka) -> Iterator[Producer]:
    """Closed with the block. FingerprintError if something that was sent did not arrive."""
    with _needs_client():
        from fingerprint.edges.kafka_producer import KafkaProducer
    opened = KafkaProducer(settings)
    try:
        yield opened
        opened.close()
    except Undelivered as error:
        raise FingerprintError(
            f"what was sent did not arrive ({error}), and nothing that rests on it was committed; "
            "start again when the broker is back"
        ) from None
    finally:
        with suppress(Undelivered):
            opened.close()


@contextmanager
def _needs_client() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise FingerprintError(
            f"{error.name} is not installed; `pip install fingerprint[kafka]` reads and writes topics"
        ) from None
