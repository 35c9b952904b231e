"""A body that proves where it comes from: signatures of Standard Webhooks.

Example:
    >>> headers("msg_1", 1767268800, b"{}", [secret])["webhook-signature"]
    'v1,lhfJ5...='
    >>> verified(headers, body, [secret], now=1767268801)       # what the receiver asks
    True

What is signed is `id.timestamp.body`, so neither a body nor its time can be exchanged, and an old request sent again is found
by its timestamp. While a secret is exchanged there are two, and each signs. Source: https://www.standardwebhooks.com, symmetric.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256

from fingerprint.core.alert import FingerprintError

SECRET_PREFIX = "whsec_"
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64  # bytes of a secret
TOLERANCE_SECONDS = 300  # seconds that the two clocks may differ, and a request may be under way


def parse_secrets(text: str) -> list[bytes]:
    """The secrets in a file's text, one a line. FingerprintError for what is none, without saying it."""
    return [_parse_secret(line.strip()) for line in text.splitlines() if line.strip()]


def _parse_secret(line: str) -> bytes:
    try:
        made = (
            b64decode(line.removeprefix(SECRET_PREFIX), validate=True)
            if line.startswith(SECRET_PREFIX)
            else b""
        )
    except (binascii.Error, ValueError):
        made = b""
    if not MIN_SECRET_BYTES <= len(made) <= MAX_SECRET_BYTES:
        raise FingerprintError(
            f"a secret is {SECRET_PREFIX} and base64 of {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes; `openssl rand -base64 32` makes what comes behind"
        )
    return made


def signature_headers(key: str, timestamp: int, body: bytes, secrets: Iterable[bytes]) -> dict[str, str]:
    """The three headers of a request; without a secret there is no signature. `timestamp`: seconds since 1970."""
    signed = [f"v1,{_signature(key, timestamp, body, secret)}" for secret in secrets]
    named = {"webhook-id": key, "webhook-timestamp": str(timestamp)}
    return named | ({"webhook-signature": " ".join(signed)} if signed else {})


def verify_signature(
    request_headers: Mapping[str, str], body: bytes, secrets: Iterable[bytes], now: float
) -> bool:
    """Whether one of the secrets signed this body lately; names of headers in small letters."""
    timestamp = request_headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    wanted = [
        _signature(request_headers.get("webhook-id", ""), int(timestamp), body, secret).encode()
        for secret in secrets
    ]
    found = [part.partition(",") for part in request_headers.get("webhook-signature", "").split(" ")]
    return any(
        version == "v1" and hmac.compare_digest(signature.encode(), each)
        for version, _, signature in found
        for each in wanted
    )


def _signature(key: str, timestamp: int, body: bytes, secret: bytes) -> str:
    signed = b"%b.%d.%b" % (key.encode(), timestamp, body)
    return b64encode(hmac.digest(secret, signed, sha256)).decode()
