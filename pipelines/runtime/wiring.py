"""The one place that turns settings into Kafka clients, queues, inference, pools and receivers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fingerprint.adapters.kafka.topic_receiver import TopicReceiver
from fingerprint.adapters.system import InProcessPool
from fingerprint.compute.backend import HOST_BACKEND, Backend
from fingerprint.core.credentials import holds_credentials
from fingerprint.core.errors import FingerprintError, Unavailable
from fingerprint.core.extras import how_to_install
from fingerprint.core.log import get_logger
from fingerprint.core.ports.inference import Inference
from fingerprint.core.ports.message_stream import Consumer, DeliveryFailed, Producer
from fingerprint.core.ports.object_store import MessageQueue, ObjectStore
from fingerprint.core.ports.topics import TopicAdmin
from fingerprint.core.ports.worker_pool import WorkerPool
from fingerprint.core.settings import Bank as BankOptions
from fingerprint.core.settings import Kafka, ReceiverSettings, Settings, Sqs, Triton, Workers
from fingerprint.delivery.outbox import Receiver
from pipelines.runtime.service import announce_wait

if TYPE_CHECKING:  # these import pandas and cryptography, which a command about topics does not need
    from fingerprint.detection.inference import ServerTrust
    from fingerprint.registry.bank import Bank
    from fingerprint.registry.signatures import Signer
    from fingerprint.store import SqlStore
    from fingerprint.streaming.bank_watcher import BankWatcher

log = get_logger("fingerprint.wiring")

MIN_ANSWER_SECONDS = 1.0  # a request has at least as long, even after a slow connection


class KafkaClient(NamedTuple):
    """The classes of one Kafka client, which the setting `kafka.client` names."""

    consumer: Callable[[Kafka, int | None], Consumer]
    producer: Callable[[Kafka], Producer]
    topic_admin: Callable[[Kafka], TopicAdmin]


@contextmanager
def open_consumer(
    settings: Kafka, purpose: str, max_partition_fetch_bytes: int | None = None
) -> Iterator[Consumer]:
    """Open a member of the group `<group>-<purpose>`: programs that read different topics must not share a group."""
    named = settings.model_copy(update={"group_id": f"{settings.group_id}-{purpose}"})
    with announce_wait(_broker_text(settings)):
        opened = _kafka_client(settings).consumer(named, max_partition_fetch_bytes)
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def open_producer(settings: Kafka) -> Iterator[Producer]:
    """Open a producer for the block. Raises FingerprintError if a sent message did not arrive."""
    with announce_wait(_broker_text(settings)):
        opened = _kafka_client(settings).producer(settings)
    try:
        yield opened
        opened.close()
    except DeliveryFailed as error:
        raise FingerprintError(
            f"what was sent did not arrive ({error}), and no offset that depends on it was committed; "
            "start again when the broker is back"
        ) from None
    finally:
        with suppress(DeliveryFailed):
            opened.close()


def _broker_text(settings: Kafka) -> str:
    return f"the broker at {', '.join(settings.bootstrap_servers)}"


def require_broker(settings: Kafka, timeout_seconds: float) -> None:
    """Raise FingerprintError unless one of the bootstrap servers accepts a connection in time.

    It is for commands that a person waits for: a client would try again until its own, longer timeouts are over.
    """
    reason, deadline = "it names no server", time.monotonic() + timeout_seconds
    for address in settings.bootstrap_servers:
        host, _, port = address.rpartition(":")
        try:
            left = max(deadline - time.monotonic(), 0.1)
            socket.create_connection((host.strip("[]"), int(port)), timeout=left).close()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
        else:
            return
    where = ", ".join(settings.bootstrap_servers)
    raise FingerprintError(
        f"no broker answers at {where} ({reason}): start Kafka, or set kafka.bootstrap_servers"
    )


def require_answer(settings: Kafka, timeout_seconds: float) -> None:
    """Raise FingerprintError unless a broker accepts a connection and answers a request, both within the timeout."""
    begun = time.monotonic()
    require_broker(settings, timeout_seconds)
    left = max(timeout_seconds - (time.monotonic() - begun), MIN_ANSWER_SECONDS)
    timeout = min(settings.request_timeout_ms, round(left * 1000))
    with open_topic_admin(settings.model_copy(update={"request_timeout_ms": timeout})) as topics:
        topics.describe([])


def open_topic_admin(settings: Kafka) -> TopicAdmin:
    """Open the administration of topics. Raises FingerprintError or ServerUnavailable."""
    return _kafka_client(settings).topic_admin(settings)


def warn_of_missing_topics(settings: Kafka, *names: str) -> None:
    """Log topics that do not exist, because a consumer waits for them silently; log nothing if the broker does not answer."""
    with suppress(FingerprintError), open_topic_admin(settings) as topics:
        found = topics.describe(names)
        for name in names:
            if name not in found:
                log.warning(
                    "the topic does not exist, waiting for it: `fingerprint topics create`", topic=name
                )


@contextmanager
def open_object_queue(url: str, settings: Sqs) -> Iterator[tuple[MessageQueue, ObjectStore]]:
    """Open a queue of notifications, and the store of the objects that they name."""
    if holds_credentials(url):
        raise FingerprintError(
            f"{url}: a queue's URL holds no password or token, boto3 takes them from the environment"
        )
    try:
        from fingerprint.adapters.aws.s3 import S3Objects
        from fingerprint.adapters.aws.sqs import SqsQueue
    except ImportError as error:
        raise FingerprintError(
            f"a queue needs a package that is not there ({error.name}): {how_to_install('s3')}"
        ) from None
    try:
        with closing(SqsQueue(url, settings)) as opened:
            yield opened, S3Objects(url)
    except Unavailable as error:
        raise FingerprintError(f"{url} does not answer: {error}; start again when it does") from None


def create_signer(options: BankOptions) -> Signer | None:
    """Return the signer of banks: a key in a file, or a hook; None if neither is set. Raises FingerprintError."""
    from fingerprint.registry import signatures

    if options.signing_key_file:
        return signatures.FileSigner(Path(options.signing_key_file))
    return signatures.load_signer(options.signer) if options.signer else None


def open_scoring_store(settings: Settings, url: str | None = None) -> SqlStore:
    """Open the alert store at `url`, or the one of the settings, for a program that saves alerts in it.

    The store leaves out the fields that the settings redact, and adds facts of the address tables. Raises FingerprintError.
    """
    from fingerprint.adapters.address_tables import open_address_tables
    from fingerprint.store import open_store

    return open_store(
        url or settings.database.url,
        redact=settings.database.redacted_fields,
        addresses=open_address_tables(settings.enrichment),
    )


@contextmanager
def open_inference(
    settings: Triton, bank: Bank, server_trust: ServerTrust | None = None
) -> Iterator[Inference]:
    """Open the computation of losses: Triton with this process as fallback, or this process alone.

    Callers that use the server for several banks share one `server_trust` between these.
    """
    from fingerprint.detection.inference import FallbackInference, LocalInference

    local = LocalInference(bank)
    if settings.url is None:
        yield local
        return
    try:
        from fingerprint.adapters.triton.client import TritonInference
    except ImportError as error:
        raise FingerprintError(
            f"triton.url needs a package that is not there ({error.name}): {how_to_install('triton')}"
        ) from None
    with closing(TritonInference(bank.version, settings)) as remote:
        yield FallbackInference(remote, local, server_trust)


@contextmanager
def open_worker_pool(settings: Workers) -> Iterator[WorkerPool]:
    """Open the workers of the settings: this process, or a cluster. A cluster that was started here ends with the block."""
    if settings.scheduler == "local":
        yield InProcessPool()
        return
    try:
        from fingerprint.adapters.worker_pool import open_dask_pool
    except ImportError as error:
        raise FingerprintError(
            f"workers.scheduler {settings.scheduler} needs a package that is not there ({error.name}): "
            f"{how_to_install('scale')}"
        ) from None
    with open_dask_pool(settings) as opened:
        yield opened


def bank_watcher(folder: Path, settings: Settings, backend: Backend = HOST_BACKEND) -> BankWatcher:
    """Return the watcher of the banks in a folder; losses are computed where the settings say.

    Raises FingerprintError if no bank can be opened.
    """
    from fingerprint.detection.inference import ServerTrust
    from fingerprint.streaming.bank_watcher import BankWatcher

    trust = ServerTrust()
    measuring = partial(open_inference, settings.triton, server_trust=trust)
    return BankWatcher(
        folder, settings, measuring, partial(server_lacks_version, settings.triton), trust, backend
    )


def server_lacks_version(settings: Triton, active_version: str, version: str) -> bool:
    """Return whether the server serves the active bank, but not this version yet.

    False if it does not answer, because then this process computes the losses with any bank.
    """
    if settings.url is None:
        return False
    from fingerprint.adapters.triton.client import is_version_served

    return is_version_served(active_version, settings) and not is_version_served(version, settings)


def _kafka_client(settings: Kafka) -> KafkaClient:
    """Return the classes of the Kafka client of the settings; its package is imported here, because it is optional."""
    if ":" in settings.client:
        return _load_client(settings.client)
    try:
        return {"kafka-python": _kafka_python, "confluent": _confluent}[settings.client]()
    except ImportError as error:
        extra = "confluent" if settings.client == "confluent" else "kafka"
        raise FingerprintError(
            f"kafka.client {settings.client} needs a package that is not there ({error.name}): "
            f"{how_to_install(extra)}"
        ) from None


def _kafka_python() -> KafkaClient:
    from fingerprint.adapters.kafka.kafka_python import KafkaPythonConsumer
    from fingerprint.adapters.kafka.kafka_python_admin import KafkaPythonTopicAdmin
    from fingerprint.adapters.kafka.kafka_python_producer import KafkaPythonProducer

    return KafkaClient(KafkaPythonConsumer, KafkaPythonProducer, KafkaPythonTopicAdmin)


def _confluent() -> KafkaClient:
    from fingerprint.adapters.kafka.confluent import ConfluentConsumer
    from fingerprint.adapters.kafka.confluent_admin import ConfluentTopicAdmin
    from fingerprint.adapters.kafka.confluent_producer import ConfluentProducer

    return KafkaClient(ConfluentConsumer, ConfluentProducer, ConfluentTopicAdmin)


def _load_client(path: str) -> KafkaClient:
    """Return the classes of another client, from the function `package.module:factory`. Raises FingerprintError if it fails.

    Tests use this for the client of an in-memory broker, also in the programs that they start.
    """
    module, _, factory = path.partition(":")
    try:
        return KafkaClient(*getattr(import_module(module), factory)())
    except Exception as error:  # a plug-in may raise anything
        raise FingerprintError(f"kafka.client {path!r} gives no client: {error}") from None


def create_receiver(name: str, settings: Settings) -> Receiver:
    """Open a receiver of the settings. Raises FingerprintError, with the name of the receiver, if it cannot be opened."""
    wants = settings.deliver[name]
    try:
        if wants.kind != "kafka":
            return _create_webhook(wants)
        return TopicReceiver(wants, lambda: _kafka_client(settings.kafka).producer(settings.kafka))
    except FingerprintError as error:
        raise FingerprintError(f"deliver.{name}: {error}") from None


def _create_webhook(options: ReceiverSettings) -> Receiver:
    try:
        from fingerprint.adapters.webhook import WebhookReceiver
    except ImportError as error:
        raise FingerprintError(
            f"kind {options.kind} needs a package that is not there ({error.name}): {how_to_install('deliver')}"
        ) from None
    return WebhookReceiver(options)
