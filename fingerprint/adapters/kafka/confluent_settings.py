"""Settings as librdkafka wants them.

Example:
    >>> connection(Kafka(brokers=("127.0.0.1:9092",)))["bootstrap.servers"]
    '127.0.0.1:9092'
"""

from __future__ import annotations

import time
from typing import Any

from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Kafka, read_secret

TOKEN_LIFETIME_SECONDS = 300  # a token from a file is read again this often


def librdkafka_options(settings: Kafka) -> dict[str, Any]:
    """What consumer and producer share."""
    settings.check_files()
    guard = "SASL_" if settings.sasl_mechanism else ""
    options = {
        "bootstrap.servers": ",".join(settings.bootstrap_servers),
        "security.protocol": guard + ("SSL" if settings.tls else "PLAINTEXT"),
        "broker.address.family": "any",
        "reconnect.backoff.max.ms": 1000,
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
