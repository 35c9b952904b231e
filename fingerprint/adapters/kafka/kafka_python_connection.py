"""The connection of kafka-python: our settings as its options, and its errors as ours.

Example:
    >>> kafka_python_options(Kafka(bootstrap_servers=("127.0.0.1:9092",)))
    {'bootstrap_servers': ['127.0.0.1:9092'], 'security_protocol': 'PLAINTEXT', ...}
"""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kafka
from kafka import errors
from kafka.net.sasl.oauth import AbstractTokenProvider

from fingerprint.adapters.kafka import base
from fingerprint.core.errors import FingerprintError, ServerUnavailable
from fingerprint.core.extras import how_to_install
from fingerprint.core.ports.message_stream import PartitionNotOwned, RebalanceInProgress
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Kafka, read_secret

MEMBERSHIP_LOST_ERRORS = (
    errors.CommitFailedError,
    errors.FencedInstanceIdError,
    errors.UnknownMemberIdError,
    errors.IllegalGenerationError,
)
UNAVAILABLE_ERRORS = (errors.KafkaTimeoutError, errors.KafkaConnectionError, errors.NodeNotReadyError)
_LIBRARY_LOG = logging.getLogger("kafka.net.manager")
# The library logs every attempt to connect, twice a second. Programs log themselves that no broker answers, and why.
_NETWORK_LOG = logging.getLogger("kafka.net")
_NETWORK_LOG.addHandler(logging.NullHandler())
_NETWORK_LOG.propagate = False
_NOISE = re.compile(
    r"\[Error \d+\] |SaslAuthenticationFailedError: |KafkaConnectionError: |Handshake failed: |\[SSL: \w+\] | \(_ssl\.c:\d+\)"
)
# kafka-python 3.0.12 drops an answer that comes together with the end of its connection, as that to a refused login does
_DISCONNECTED = "socket disconnected"


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]
    """An OAuth token that another program renews in a file; read again at each connection."""

    def __init__(self, file: str):
        self._file = file

    def token(self) -> str:
        """Return the token, empty if the file is."""
        return read_secret(self._file) or ""


def require_fast_checksum() -> None:
    """Raise FingerprintError unless CRC32C is computed in C: in pure Python, consuming is at least eleven times slower."""
    if not importlib.util.find_spec("crc32c"):
        raise FingerprintError(f"kafka-python needs the C module crc32c: {how_to_install('kafka')}")


def kafka_python_options(settings: Kafka) -> dict[str, Any]:
    """Return the options of consumer, producer and admin. Raise FingerprintError for a file that cannot be read."""
    require_fast_checksum()
    settings.check_files()
    return {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "security_protocol": base.security_protocol(settings),
        "bootstrap_timeout_ms": settings.request_timeout_ms,
        "reconnect_backoff_max_ms": base.RECONNECT_BACKOFF_MAX_MS,
        **(_tls_options(settings) if settings.tls else {}),
        **(_sasl_options(settings) if settings.sasl_mechanism else {}),
    }


def _tls_options(settings: Kafka) -> dict[str, Any]:
    return {
        "ssl_cafile": settings.ssl_ca_file,
        "ssl_certfile": settings.ssl_certificate_file,
        "ssl_keyfile": settings.ssl_key_file,
        "ssl_password": read_secret(settings.ssl_key_password_file),
    }


def _sasl_options(settings: Kafka) -> dict[str, Any]:
    if settings.sasl_mechanism == "OAUTHBEARER":
        provider = TokenFile(settings.sasl_oauth_token_file or "")
        return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider}
    return {
        "sasl_mechanism": settings.sasl_mechanism,
        "sasl_plain_username": settings.sasl_username,
        "sasl_plain_password": read_secret(settings.sasl_password_file),
    }


def fetch_partition_count(topic: str, settings: Kafka) -> int:
    """Return a topic's number of partitions. Raise FingerprintError if there is no such topic.

    It uses a connection of its own, because the consumer's request waits without end while no broker answers.
    """
    options = kafka_python_options(settings) | {"request_timeout_ms": settings.request_timeout_ms}
    admin = kafka.KafkaAdminClient(**options)
    try:
        (found,) = admin.describe_topics([topic])
    finally:
        admin.close()
    if not found["partitions"]:
        raise base.no_such_topic(topic)
    return len(found["partitions"])


class ConnectionFailureHandler(logging.Handler):
    """The last error of a connection, empty if there was none; a refused login takes precedence, then a refused certificate.

    It is needed because kafka-python raises only that no broker answered; it logs the reason of a failed login.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.error: Exception | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the error that explains most among a record's arguments."""
        found = [each for each in record.args or () if isinstance(each, Exception)]
        for each in found:
            late = isinstance(each, errors.KafkaTimeoutError | errors.RequestTimedOutError)
            if not late and _weight(each) >= _weight(self.error):
                self.error = each

    @property
    def is_authentication_failure(self) -> bool:
        """Return whether a broker answered, and one side refused the login or the certificate of the other."""
        return _weight(self.error) > 0 or self.is_disconnect

    @property
    def is_disconnect(self) -> bool:
        """Return whether a server ended the connection without an answer."""
        return _DISCONNECTED in str(self.error)

    def __str__(self) -> str:
        if self.error is None:
            return ""
        text = printable(_NOISE.sub("", str(self.error)))
        return (
            f"{text}, as it does at a wrong login or protocol: kafka.sasl_mechanism, kafka.tls"
            if text == _DISCONNECTED
            else text
        )


def _weight(error: Exception | None) -> int:
    """Return how well an error explains a failed connection: a timeout explains less than a refused connection."""
    if isinstance(error, errors.SaslAuthenticationFailedError):
        return 2
    return int("SSL" in str(error))


@contextmanager
def capture_connection_failure() -> Iterator[ConnectionFailureHandler]:
    """Listen to kafka-python's log while the block runs.

    Example:
        >>> with capture_connection_failure() as failure:
        ...     kafka.KafkaConsumer(bootstrap_servers="localhost:9093", security_protocol="SSL")
        >>> str(failure)
        "certificate verify failed: Hostname mismatch, certificate is not valid for 'localhost'."
    """
    failure = ConnectionFailureHandler()
    _LIBRARY_LOG.addHandler(failure)
    try:
        yield failure
    finally:
        _LIBRARY_LOG.removeHandler(failure)


@contextmanager
def translate_connection_errors(settings: Kafka) -> Iterator[None]:
    """Raise kafka-python's errors as those of the port while a connection is made, with the reason if it cannot be."""
    with translate_kafka_python_errors(settings), capture_connection_failure() as failure:
        try:
            yield
        except errors.KafkaTimeoutError:
            if not failure.is_authentication_failure:
                raise
            # without TLS or login, a connection that ends comes from a proxy in front of a broker that is not up yet
            not_up = failure.is_disconnect and not (settings.tls or settings.sasl_mechanism)
            error = ServerUnavailable if not_up else FingerprintError
            raise error(base.not_let_in(settings, failure)) from None


@contextmanager
def translate_kafka_python_errors(settings: Kafka) -> Iterator[None]:
    """Raise kafka-python's errors as those of the port."""
    try:
        yield
    except MEMBERSHIP_LOST_ERRORS as error:
        raise PartitionNotOwned(str(error)) from error
    except errors.RebalanceInProgressError as error:
        raise RebalanceInProgress(str(error)) from error
    except errors.OffsetOutOfRangeError as error:
        what = error.args[0] if error.args else error
        raise base.messages_lost(f"{what} is no longer held by Kafka") from None
    except UNAVAILABLE_ERRORS as error:
        timed_out = isinstance(error, errors.KafkaTimeoutError)
        raise base.no_answer(settings, timed_out) from None
    except errors.KafkaError as error:
        raise base.refused(settings, error) from error
