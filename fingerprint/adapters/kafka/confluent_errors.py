"""Why librdkafka could not let itself in: it calls back with that, and raises that nobody answered.

Example:
    >>> reason = Reason()
    >>> client = confluent_kafka.Producer({"bootstrap.servers": "localhost:9093", "error_cb": reason.hear})
    >>> greet(client, settings, reason)
"""

from __future__ import annotations

import re
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from fingerprint.core.alert import FingerprintError
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Kafka

_NOISE = re.compile(
    r"^\w+://\S+: |error:\w+:|SSL routines::|, verify that ssl\.ca\.location.*| \(after .*\)$"
)


class ConnectionFailure:
    """The last error of a connection. Empty if there was none."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None

    def on_error(self, error: KafkaError) -> None:
        """librdkafka's `error_cb`."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.error = error

    @property
    def is_authentication_failure(self) -> bool:
        """Whether somebody was there, and did not let us in or could not prove who it was."""
        return self.error is not None and (
            self.error.code() == KafkaError._AUTHENTICATION or "SSL" in self.error.str()
        )

    def __str__(self) -> str:
        return "" if self.error is None else printable(_NOISE.sub("", self.error.str()))


def check_connection(client: Any, settings: Kafka, failure: ConnectionFailure) -> None:
    """Ask a first question, so that whoever is not let in hears it now. FingerprintError with the reason."""
    try:
        client.list_topics(timeout=settings.request_timeout_seconds)
    except KafkaException:
        client.poll(0)  # it calls back only here
        if not failure.is_authentication_failure:
            raise
        where = ", ".join(settings.bootstrap_servers)
        raise FingerprintError(f"Kafka at {where} does not let us in: {failure}") from None
