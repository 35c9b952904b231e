"""The webhook door: one signed POST, to the very address that was checked, and nowhere else.

Example:
    >>> Webhook("https://soc.example.com/alerts", receiver).take("6f0c...", b"{}", "123456789012:role/ci", now)

A name is resolved once for a request, every answer is judged (`reaching`), and what is connected to is one of these answers, so a
name cannot answer one thing to the check and another to the connection. TLS asks for the certificate of the name. Redirects are
not followed, the environment's proxies are not asked, a connection serves one request, and all of it has one deadline.

httpcore, the layer beneath httpx, because it lets us open the connection ourselves.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpcore

from fingerprint.adapters.guarded_transport import AddressRefused, GuardedBackend, Resolver, resolve_host
from fingerprint.core.alert import FingerprintError
from fingerprint.core.egress import WebhookTarget, parse_networks, parse_target
from fingerprint.core.ports import ObjectNotFound, Unavailable
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import ReceiverSettings, read_secret
from fingerprint.core.webhook_signature import parse_secrets, signature_headers
from fingerprint.delivery.outbox import RateLimited

MAX_RESPONSE_BYTES = 64 << 10  # bytes of an answer that are read
EXCERPT_LENGTH = 200  # characters of an answer that are told
PERMANENT_STATUSES = (410,)  # Gone, says Standard Webhooks: nobody wants it any more


class WebhookReceiver:
    """A Taker behind a URL. FingerprintError if the settings' URL, secret, networks or certificates are none."""

    def __init__(self, options: ReceiverSettings, resolve: Resolver = resolve_host) -> None:
        self.options, self.resolve = options, resolve
        self.endpoint: WebhookTarget = parse_target(options.target_url(), options.allow_http)
        self.allowed_networks = parse_networks(options.allowed_networks)
        self.tls_context = _create_tls_context(options.ca_file) if self.endpoint.is_https else None
        self._secrets()

    def deliver(self, key: str, body: bytes, principal: str, now: datetime) -> None:
        with _translate_errors(self.endpoint), self._post(key, body, now) as (status, given, told):
            if status in PERMANENT_STATUSES:
                raise ObjectNotFound(f"{self.endpoint} answered {status}: it wants no more")
            if not 200 <= status < 300:
                told = self.endpoint.redact_path(told)
                why = f"{self.endpoint} answered {status}{f': {told}' if told else ''}"
                raise RateLimited(_explain_redirect(why, status), _retry_after_seconds(given, now))

    def close(self) -> None:
        """Holds nothing between two requests."""

    @contextmanager
    def _post(self, key: str, body: bytes, now: datetime) -> Iterator[tuple[int, dict[bytes, bytes], str]]:
        """Status, headers, and how the answer begins."""
        network = GuardedBackend(self.resolve, self.allowed_networks, self.options.timeout_seconds)
        pool = httpcore.ConnectionPool(
            ssl_context=self.tls_context, network_backend=network, max_connections=1
        )
        timeout = dict.fromkeys(("connect", "read", "write", "pool"), self.options.timeout_seconds)
        with (
            closing(pool),
            pool.stream(
                "POST",
                self.endpoint.url,
                headers=self._headers(key, body, now),
                content=body,
                extensions={"timeout": timeout},
            ) as answer,
        ):
            given = {name.lower(): value for name, value in answer.headers}
            yield answer.status, given, _read_excerpt(answer.iter_stream())

    def _headers(self, key: str, body: bytes, now: datetime) -> dict[bytes | str, bytes | str]:
        said: dict[bytes | str, bytes | str] = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "user-agent": "fingerprint",
            "idempotency-key": key,
        }
        return said | dict(signature_headers(key, int(now.timestamp()), body, self._secrets()).items())

    def _secrets(self) -> Sequence[bytes]:
        """Read for each request, so that they can be exchanged while the program runs."""
        return parse_secrets(read_secret(self.options.signing_secret_file) or "")


def _create_tls_context(file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise FingerprintError(f"file {file} of the settings holds no certificates: {error}") from None


@contextmanager
def _translate_errors(place: WebhookTarget) -> Iterator[None]:
    """What goes wrong on the way, as one sentence without the URL."""
    try:
        yield
    except AddressRefused as refused:
        raise Unavailable(f"{place} is not connected to: {refused}; `allow` names inner networks") from None
    except httpcore.TimeoutException:
        raise Unavailable(f"{place} did not answer in time") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        raise Unavailable(
            f"{place} could not be told: {printable(str(error)[:EXCERPT_LENGTH]) or type(error).__name__}"
        ) from None


def _read_excerpt(chunks: Iterable[bytes]) -> str:
    """Of an answer, as text; no more than MOST is read of it."""
    read = b""
    for chunk in chunks:
        read += chunk[: MAX_RESPONSE_BYTES - len(read)]
        if len(read) >= MAX_RESPONSE_BYTES:
            break
    return printable(read[: 4 * EXCERPT_LENGTH].decode(errors="replace")[:EXCERPT_LENGTH])


def _explain_redirect(why: str, status: int) -> str:
    return f"{why} (redirects are not followed)" if 300 <= status < 400 else why


def _retry_after_seconds(given: dict[bytes, bytes], now: datetime) -> float:
    """Seconds that `Retry-After` asks for; 0 without one that can be read."""
    text = given.get(b"retry-after", b"").decode("ascii", "replace").strip()
    if text.isdecimal():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return 0.0
    return max(0.0, ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds())
