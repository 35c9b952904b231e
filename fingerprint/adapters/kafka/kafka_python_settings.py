"""Settings as kafka-python wants them, and the check that its fast checksum is there.

Example:
    >>> connection(Kafka(brokers=("127.0.0.1:9092",)))
    {'bootstrap_servers': ['127.0.0.1:9092'], 'security_protocol': 'PLAINTEXT', ...}
"""

from __future__ import annotations

import importlib.util
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from fingerprint.core.alert import FingerprintError
from fingerprint.core.extras import how_to_install
from fingerprint.core.settings import Kafka, read_secret


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]
    """An OAuth token that somebody else renews in a file; read anew at each connection."""

    def __init__(self, file: str):
        self._file = file

    def token(self) -> str:
        return read_secret(self._file) or ""


def require_fast_checksum() -> None:
    """FingerprintError unless CRC32C is computed in C: in pure Python, consuming is eleven times as slow or worse."""
    if not importlib.util.find_spec("crc32c"):
        raise FingerprintError(f"kafka-python needs the C module crc32c: {how_to_install('kafka')}")


def kafka_python_options(settings: Kafka) -> dict[str, Any]:
    """What consumer, producer and admin share."""
    require_fast_checksum()
    settings.check_files()
    guard = "SASL_" if settings.sasl_mechanism else ""
    return {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "security_protocol": guard + ("SSL" if settings.tls else "PLAINTEXT"),
        "bootstrap_timeout_ms": settings.request_timeout_ms,
        "reconnect_backoff_max_ms": 1000,
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
