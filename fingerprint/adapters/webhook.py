"""Webhook receiver: one signed POST, to exactly the address that was checked.

Example:
    >>> WebhookReceiver(options).deliver("6f0c...", b"{}", "123456789012:role/ci", now)

- A name is resolved once per request, every address is checked (`core.egress`), and the connection is opened to one of these
  addresses. So a name cannot resolve to one address for the check and to another for the connection.
- TLS requires a certificate of the name. Redirects are not followed, and the environment's proxies are not used.
- A connection serves one request, and the whole request has one deadline.
- httpcore, the layer beneath httpx, lets us open the connection ourselves.

Bodies are signed according to Standard Webhooks (`standardwebhooks`): id, timestamp and body together. So neither a body nor its
time can be changed, and a replayed request is recognised by its timestamp. During a rotation there are two secrets, and each
signs.
"""

from __future__ import annotations

import base64
import binascii
import socket
import ssl
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpcore
from standardwebhooks import Webhook

from fingerprint.core.egress import Network, WebhookTarget, parse_networks, parse_target, refusal_reason
from fingerprint.core.errors import FingerprintError, ObjectNotFound, Unavailable
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import ReceiverSettings, read_secret
from fingerprint.delivery.outbox import RateLimited

Resolver = Callable[[str, int], Sequence[str]]  # host and port -> addresses


class AddressRefused(Exception):
    """A connection to an address is refused; the message names the address and the reason."""


def resolve_host(host: str, port: int) -> list[str]:
    """Return the addresses of a name by the system's resolver; an odd spelling (127.1, 0x7f000001) becomes its address."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(f"its name leads nowhere ({getattr(error, 'strerror', error)})") from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class GuardedBackend(httpcore.NetworkBackend):
    """The connections of one request, with checked addresses; they all end `seconds` after the start."""

    def __init__(self, resolve: Resolver, allowed_networks: Collection[Network], seconds: float) -> None:
        self.resolve, self.allowed_networks = resolve, allowed_networks
        self.deadline = time.monotonic() + seconds
        self.inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to one of the addresses of `host`. Raise AddressRefused if any of them is refused.

        A name with both inner and outer addresses is an attack, or may become one.
        """
        addresses = self.resolve(host, port)
        for address in addresses:
            if why := refusal_reason(address, self.allowed_networks):
                raise AddressRefused(why)
        failed: Exception = httpcore.ConnectError("its name leads nowhere")
        for address in addresses:
            try:
                left = _remaining_seconds(self.deadline, timeout)
                return DeadlineStream(self.inner.connect_tcp(address, port, left), self.deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed


class DeadlineStream(httpcore.NetworkStream):
    """A stream whose steps all end before one deadline, so that a receiver cannot delay it by a byte now and then."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: float) -> None:
        self.inner, self.deadline = inner, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read some bytes before the deadline."""
        return self.inner.read(max_bytes, _remaining_seconds(self.deadline, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write bytes before the deadline."""
        self.inner.write(buffer, _remaining_seconds(self.deadline, timeout))

    def close(self) -> None:
        """Close the connection."""
        self.inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Return the stream after a TLS handshake, with the same deadline."""
        left = _remaining_seconds(self.deadline, timeout)
        return DeadlineStream(self.inner.start_tls(ssl_context, server_hostname, left), self.deadline)

    def get_extra_info(self, info: str) -> Any:
        """Return httpcore's information about the connection."""
        return self.inner.get_extra_info(info)


def _remaining_seconds(deadline: float, timeout: float | None) -> float:
    """Return the seconds until the deadline, or the timeout if that is sooner."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the deadline has passed")
    return left if timeout is None else min(left, timeout)


MAX_RESPONSE_BYTES = 64 << 10  # of a response that are read
EXCERPT_LENGTH = 200  # characters of a response in an error message
PERMANENT_STATUSES = (410,)  # Gone: by Standard Webhooks the endpoint is disabled
SECRET_PREFIX = "whsec_"  # noqa: S105 - begins every secret
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64


class WebhookReceiver:
    """A receiver of alerts behind a URL.

    Raise FingerprintError if the URL, a secret, the networks or the certificates of the settings are wrong.
    """

    def __init__(self, options: ReceiverSettings, resolve: Resolver = resolve_host) -> None:
        self.options, self.resolve = options, resolve
        self.endpoint: WebhookTarget = parse_target(options.target_url(), options.allow_http)
        self.allowed_networks = parse_networks(options.allowed_networks)
        self.tls_context = _create_tls_context(options.ca_file) if self.endpoint.is_https else None
        self._secrets()

    def deliver(self, key: str, body: bytes, principal: str, now: datetime) -> None:
        """Send one message. Raise ObjectNotFound if the receiver wants no more, RateLimited or Unavailable if it failed."""
        with _translate_errors(self.endpoint), self._post(key, body, now) as (status, given, detail):
            if status in PERMANENT_STATUSES:
                raise ObjectNotFound(f"{self.endpoint} answered {status}: it wants no more")
            if not 200 <= status < 300:
                detail = self.endpoint.redact_path(detail)
                why = f"{self.endpoint} answered {status}{f': {detail}' if detail else ''}"
                raise RateLimited(_explain_redirect(why, status), _retry_after_seconds(given, now))

    def close(self) -> None:
        """Do nothing: no connection is kept between two requests."""

    @contextmanager
    def _post(self, key: str, body: bytes, now: datetime) -> Iterator[tuple[int, dict[bytes, bytes], str]]:
        """Send the body; yield the status, the headers and the beginning of the response."""
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
        headers: dict[bytes | str, bytes | str] = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "user-agent": "fingerprint",
            "idempotency-key": key,
        }
        return headers | dict(signature_headers(key, now, body, self._secrets()).items())

    def _secrets(self) -> Sequence[Webhook]:
        """Return the secrets, read again for each request, so that they can be rotated while the program runs."""
        return parse_secrets(read_secret(self.options.signing_secret_file) or "")


def parse_secrets(text: str) -> list[Webhook]:
    """Return a signer for each secret in a file's text, one a line. Raise FingerprintError, without the text, for a bad one."""
    return [_parse_secret(line.strip()) for line in text.splitlines() if line.strip()]


def _parse_secret(line: str) -> Webhook:
    try:
        secret = base64.b64decode(line.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not line.startswith(SECRET_PREFIX) or not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
        raise FingerprintError(
            f"a secret is {SECRET_PREFIX} and base64 of {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes; "
            "`openssl rand -base64 32` makes the second part"
        )
    return Webhook(secret)


def signature_headers(key: str, now: datetime, body: bytes, secrets: Iterable[Webhook]) -> dict[str, str]:
    """Return the headers of Standard Webhooks; without a secret there is no signature. `body` is ASCII."""
    now = now.astimezone(UTC)  # the library ignores the time zone and assumes UTC
    signatures = [secret.sign(key, now, body.decode("ascii")) for secret in secrets]
    headers = {"webhook-id": key, "webhook-timestamp": str(int(now.timestamp()))}
    return headers | ({"webhook-signature": " ".join(signatures)} if signatures else {})


def _create_tls_context(file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise FingerprintError(f"file {file} of the settings holds no certificates: {error}") from None


@contextmanager
def _translate_errors(place: WebhookTarget) -> Iterator[None]:
    """Turn network errors into one sentence without the URL."""
    try:
        yield
    except AddressRefused as refused:
        raise Unavailable(
            f"{place} is not connected to: {refused}; `allowed_networks` names inner networks"
        ) from None
    except httpcore.TimeoutException:
        raise Unavailable(f"{place} did not answer in time") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        raise Unavailable(
            f"{place} could not be reached: {printable(str(error)[:EXCERPT_LENGTH]) or type(error).__name__}"
        ) from None


def _read_excerpt(chunks: Iterable[bytes]) -> str:
    """Return the beginning of a response as text; at most MAX_RESPONSE_BYTES are read."""
    read = b""
    for chunk in chunks:
        read += chunk[: MAX_RESPONSE_BYTES - len(read)]
        if len(read) >= MAX_RESPONSE_BYTES:
            break
    return printable(read[: 4 * EXCERPT_LENGTH].decode(errors="replace")[:EXCERPT_LENGTH])


def _explain_redirect(why: str, status: int) -> str:
    return f"{why} (redirects are not followed)" if 300 <= status < 400 else why


def _retry_after_seconds(given: dict[bytes, bytes], now: datetime) -> float:
    """Return the seconds of `Retry-After`; 0 without a readable one."""
    text = given.get(b"retry-after", b"").decode("ascii", "replace").strip()
    if text.isdecimal():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):  # a year of many digits overflows
        return 0.0
    return max(0.0, ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds())
