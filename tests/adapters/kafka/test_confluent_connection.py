"""Of all that went wrong while a connection was made, a refusal is told."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from fingerprint.adapters.kafka.confluent_connection import ConnectionFailure

LOGIN = KafkaError(KafkaError._AUTHENTICATION, "wrong password")
CERTIFICATE = KafkaError(KafkaError._SSL, "SSL handshake failed: self-signed certificate")
SLOW = KafkaError(KafkaError._TIMED_OUT, "timed out")
DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")


@pytest.mark.parametrize(
    ("failures", "told", "refused"),
    [
        ([CERTIFICATE, SLOW], "self-signed", True),
        ([SLOW, LOGIN, SLOW, DOWN], "wrong password", True),
        ([CERTIFICATE, LOGIN], "wrong password", True),
        ([DOWN, SLOW], "timed out", False),
        ([DOWN], "", False),
    ],
)
def test_a_refusal_is_told_although_a_later_attempt_took_too_long(
    failures: list[KafkaError], told: str, refused: bool
) -> None:
    failure = ConnectionFailure()
    for each in failures:
        failure.on_error(each)
    assert told in str(failure)
    assert bool(str(failure)) is bool(told)
    assert failure.is_authentication_failure is refused
