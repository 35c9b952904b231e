"""Which door a program is given: the one place that chooses between a server's client and its twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from fingerprint.adapters.process_pool import InProcess as InThisProcess
from fingerprint.compute.backend import HOST, Backend
from fingerprint.core.alert import FingerprintError
from fingerprint.core.credentials import holds_credentials
from fingerprint.core.extras import how_to_install
from fingerprint.core.ports import Away, Consumer, Losses, Objects, Producer, Queue, Undelivered
from fingerprint.core.ports import Workers as Pool
from fingerprint.core.ports.topics import Topics
from fingerprint.core.settings import Bank as BankOptions
from fingerprint.core.settings import Kafka, Settings, Sqs, Triton, Workers
from fingerprint.detection.inference import InProcess, StandIn, Trust
from fingerprint.registry import signatures
from fingerprint.registry.bank import Bank
from fingerprint.registry.signatures import Signer
from fingerprint.streaming.bank_watcher import Banks

Opener = tuple[Callable[[Kafka], Consumer], Callable[[Kafka], Producer], Callable[[Kafka], Topics]]


@contextmanager
def consumer(settings: Kafka, purpose: str) -> Iterator[Consumer]:
    """A member of the group `<group>-<purpose>`: programs that read different topics must not share one."""
    opened = _client(settings)[0](settings.model_copy(update={"group": f"{settings.group}-{purpose}"}))
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def producer(settings: Kafka) -> Iterator[Producer]:
    """Closed with the block. FingerprintError if something that was sent did not arrive."""
    opened = _client(settings)[1](settings)
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


def open_producer(settings: Kafka) -> Producer:
    """For whoever looks after its errors, and closes it."""
    return _client(settings)[1](settings)


def topics(settings: Kafka) -> Topics:
    """What topics there are, and more of them. FingerprintError, Away."""
    return _client(settings)[2](settings)


@contextmanager
def queue(url: str, settings: Sqs) -> Iterator[tuple[Queue, Objects]]:
    """A queue of notices, and the objects that they name."""
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
    except Away as error:
        raise FingerprintError(f"{url} does not answer: {error}; start again when it does") from None


def signer(options: BankOptions) -> Signer | None:
    """Who signs banks here: a key in a file, or what a hook makes; None where neither is set. FingerprintError."""
    if options.signing_key_file:
        return signatures.KeyFile(Path(options.signing_key_file))
    return signatures.hook(options.signer) if options.signer else None


@contextmanager
def losses(settings: Triton, bank: Bank, trust: Trust | None = None) -> Iterator[Losses]:
    """Who measures: the server that the settings name, with this process standing in; without one this process. `trust` is for
    who asks it about several banks."""
    near = InProcess(bank)
    if settings.url is None:
        yield near
        return
    try:
        from fingerprint.adapters.triton.client import TritonLosses
    except ImportError as error:
        raise FingerprintError(
            f"triton.url needs a package that is not there ({error.name}): {how_to_install('triton')}"
        ) from None
    with closing(TritonLosses(bank.version, settings)) as far:
        yield StandIn(far, near, trust)


@contextmanager
def workers(settings: Workers) -> Iterator[Pool]:
    """Who does pieces of work: this process, or the cluster that the settings name; what was started for it ends with the
    block."""
    if settings.where == "local":
        yield InThisProcess()
        return
    try:
        from fingerprint.adapters.worker_pool import open_workers
    except ImportError as error:
        raise FingerprintError(
            f"workers.where {settings.where} needs a package that is not there ({error.name}): "
            f"{how_to_install('scale')}"
        ) from None
    with open_workers(settings) as opened:
        yield opened


def bank_watcher(folder: Path, settings: Settings, backend: Backend = HOST) -> Banks:
    """Return the banks of a folder, measured where the settings say. FingerprintError where none can be opened."""
    trust = Trust()
    measuring = partial(losses, settings.triton, trust=trust)
    return Banks(folder, settings, measuring, partial(must_wait, settings.triton), trust, backend)


def must_wait(settings: Triton, judging: str, version: str) -> bool:
    """Whether the server that the settings name measures against the bank that judges, and not against this version yet.
    One that does not answer is not waited for: this process stands in for it in any case."""
    if settings.url is None:
        return False
    from fingerprint.adapters.triton.client import serves

    return serves(judging, settings) and not serves(version, settings)


def _client(settings: Kafka) -> Opener:
    """Imported when wanted: each needs a package of its own."""
    try:
        return {"kafka-python": _kafka_python, "confluent": _confluent, "files": _files}[settings.client]()
    except ImportError as error:
        extra = "confluent" if settings.client == "confluent" else "kafka"
        raise FingerprintError(
            f"kafka.client {settings.client} needs a package that is not there ({error.name}): "
            f"{how_to_install(extra)}"
        ) from None


def _kafka_python() -> Opener:
    from fingerprint.adapters.kafka.kafka_python import KafkaConsumer
    from fingerprint.adapters.kafka.kafka_python_admin import KafkaTopics
    from fingerprint.adapters.kafka.kafka_python_producer import KafkaProducer

    return KafkaConsumer, KafkaProducer, KafkaTopics


def _confluent() -> Opener:
    from fingerprint.adapters.kafka.confluent import ConfluentConsumer
    from fingerprint.adapters.kafka.confluent_admin import ConfluentTopics
    from fingerprint.adapters.kafka.confluent_producer import ConfluentProducer

    return ConfluentConsumer, ConfluentProducer, ConfluentTopics


def _files() -> Opener:
    from fingerprint.adapters.file_broker.consumer import FilesConsumer, FilesProducer
    from fingerprint.adapters.file_broker.topics import FilesTopics

    return FilesConsumer, FilesProducer, FilesTopics
