"""Of all that went wrong while a connection was made, what says most is told."""

from __future__ import annotations

import logging
from logging.handlers import BufferingHandler

import pytest
from kafka import errors

from fingerprint.adapters.kafka.kafka_python_connection import capture_connection_failure

LOGIN = errors.SaslAuthenticationFailedError("wrong password")
CERTIFICATE = errors.KafkaConnectionError("Handshake failed: [SSL: CERTIFICATE_VERIFY_FAILED] self-signed")
SLOW = errors.KafkaConnectionError("Connection timed out")


@pytest.mark.parametrize(
    ("failures", "told", "refused"),
    [
        ([CERTIFICATE, SLOW], "CERTIFICATE_VERIFY_FAILED", True),
        ([SLOW, CERTIFICATE, SLOW], "CERTIFICATE_VERIFY_FAILED", True),
        ([LOGIN, CERTIFICATE, SLOW], "wrong password", True),
        ([CERTIFICATE, LOGIN], "wrong password", True),
        ([SLOW, errors.KafkaTimeoutError("bootstrap")], "timed out", False),
        ([], "None", False),
    ],
)
def test_a_refusal_is_told_although_a_later_attempt_took_too_long(
    failures: list[Exception], told: str, refused: bool
) -> None:
    with capture_connection_failure() as failure:
        for each in failures:
            logging.getLogger("kafka.net.manager").warning("Connection failed: %s", each)
    assert told in str(failure.error)
    assert failure.is_authentication_failure is refused


def test_what_the_library_logs_of_its_attempts_is_written_nowhere(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Neither by a program's own log nor by Python's last resort; `capture_connection_failure` hears it still."""
    written = BufferingHandler(capacity=10)
    logging.getLogger().addHandler(written)
    try:
        for name in ("kafka.net.manager", "kafka.net.connection", "kafka.net.selector"):
            logging.getLogger(name).error("Connection lost")
    finally:
        logging.getLogger().removeHandler(written)
    assert written.buffer == []
    assert capfd.readouterr().err == ""
