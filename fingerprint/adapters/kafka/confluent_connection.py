"""The connection of confluent-kafka: our settings as librdkafka's options, and its errors as ours.

Example:
    >>> librdkafka_options(Kafka(bootstrap_servers=("127.0.0.1:9092",)))["bootstrap.servers"]
    '127.0.0.1:9092'
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from fingerprint.adapters.kafka import base
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import PartitionNotOwned, RebalanceInProgress
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Kafka, read_secret

TOKEN_LIFETIME_SECONDS = 300  # a token from a file is read again this often

MEMBERSHIP_LOST_CODES = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._FENCED,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._FATAL,  # of a consumer: another has its static name
}
# librdkafka tries again
UNAVAILABLE_CODES = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE}
TRANSIENT_CODES = {  # the leader of a partition or of a group has changed, and one of the two does not know it yet
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._WAIT_COORD,
    KafkaError._NOENT,  # the admin's word for no leader
    *UNAVAILABLE_CODES,
}
_NOISE = re.compile(
    r"^\w+://\S+: |error:\w+:|SSL routines::|, verify that ssl\.ca\.location.*| \(after .*\)$"
)


def librdkafka_options(settings: Kafka) -> dict[str, Any]:
    """Return the options of consumer, producer and admin. Raise FingerprintError for a file that cannot be read."""
    settings.check_files()
    options = {
        "bootstrap.servers": ",".join(settings.bootstrap_servers),
        "security.protocol": base.security_protocol(settings),
        "broker.address.family": "any",
        "reconnect.backoff.max.ms": base.RECONNECT_BACKOFF_MAX_MS,
        "log_level": 2,
        **_sasl_options(settings),
        "ssl.ca.location": settings.ssl_ca_file,
        "ssl.certificate.location": settings.ssl_certificate_file,
        "ssl.key.location": settings.ssl_key_file,
        "ssl.key.password": read_secret(settings.ssl_key_password_file),
    }
    return {name: value for name, value in options.items() if value is not None}


def _sasl_options(settings: Kafka) -> dict[str, Any]:
    if settings.sasl_mechanism is None:
        return {}
    if settings.sasl_mechanism == "AWS_MSK_IAM":
        raise FingerprintError("confluent-kafka does not speak AWS_MSK_IAM: set kafka.client = kafka-python")
    if settings.sasl_mechanism == "OAUTHBEARER":
        return {"sasl.mechanisms": "OAUTHBEARER", "oauth_cb": lambda _: _read_token(settings)}
    return {
        "sasl.mechanisms": settings.sasl_mechanism,
        "sasl.username": settings.sasl_username,
        "sasl.password": read_secret(settings.sasl_password_file),
    }


def _read_token(settings: Kafka) -> tuple[str, float]:
    return read_secret(settings.sasl_oauth_token_file) or "", time.time() + TOKEN_LIFETIME_SECONDS


class ConnectionFailure:
    """The last error of a connection, empty if there was none; a refused login or certificate takes precedence over others.

    It is needed because librdkafka raises only that no broker answered; the reason of a failed login comes in a callback.

    Example:
        >>> failure = ConnectionFailure()
        >>> client = confluent_kafka.Producer(librdkafka_options(settings) | {"error_cb": failure.on_error})
        >>> check_connection(client, settings, failure)
    """

    def __init__(self) -> None:
        self.error: KafkaError | None = None

    def on_error(self, error: KafkaError) -> None:
        """Keep an error: librdkafka's `error_cb`."""
        is_last = _is_refusal(error) or not self.is_authentication_failure
        if is_last and error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.error = error

    @property
    def is_authentication_failure(self) -> bool:
        """Return whether a broker answered, and one side refused the login or the certificate of the other."""
        return self.error is not None and _is_refusal(self.error)

    def __str__(self) -> str:
        return "" if self.error is None else printable(_NOISE.sub("", self.error.str()))


def _is_refusal(error: KafkaError) -> bool:
    return bool(error.code() == KafkaError._AUTHENTICATION or "SSL" in error.str())


def check_connection(client: Any, settings: Kafka, failure: ConnectionFailure) -> None:
    """Send a first request, so that a refused login is known at once. Raise FingerprintError with the reason."""
    try:
        client.list_topics(timeout=settings.request_timeout_seconds)
    except KafkaException:
        client.poll(0)  # runs the callbacks
        if not failure.is_authentication_failure:
            raise
        raise FingerprintError(base.not_let_in(settings, failure)) from None


@contextmanager
def translate_librdkafka_errors(settings: Kafka) -> Iterator[None]:
    """Raise librdkafka's errors as those of the port."""
    try:
        yield
    except KafkaException as exception:
        error = exception.args[0]
        if error.code() in MEMBERSHIP_LOST_CODES:
            raise PartitionNotOwned(error.str()) from exception
        if error.code() == KafkaError.REBALANCE_IN_PROGRESS:
            raise RebalanceInProgress(error.str()) from exception
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise base.messages_lost(error.str()) from None
        if error.code() in UNAVAILABLE_CODES or error.code() == KafkaError._TIMED_OUT:
            raise base.no_answer(settings, error.code() == KafkaError._TIMED_OUT) from None
        raise base.refused(settings, error.str()) from exception
