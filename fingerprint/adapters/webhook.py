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

from fingerprint.adapters.guarded_transport import Guarded, Refused, Resolve, resolved
from fingerprint.core.alert import FingerprintError
from fingerprint.core.egress import Place, networks, place_of
from fingerprint.core.ports import Away, Gone
from fingerprint.core.sanitize import visible
from fingerprint.core.settings import Deliver, secret
from fingerprint.core.webhook_signature import headers, secrets_of
from fingerprint.delivery.outbox import Busy

MOST = 64 << 10  # bytes of an answer that are read
SHOWN = 200  # characters of an answer that are told
NEVER = (410,)  # Gone, says Standard Webhooks: nobody wants it any more


class Webhook:
    """A Taker behind a URL. FingerprintError if the settings' URL, secret, networks or certificates are none."""

    def __init__(self, wants: Deliver, resolve: Resolve = resolved) -> None:
        self.wants, self.resolve = wants, resolve
        self.place: Place = place_of(wants.place(), wants.plain_http)
        self.allowed = networks(wants.allow)
        self.trust = _trust(wants.ca_file) if self.place.secure else None
        self._secrets()

    def take(self, key: str, body: bytes, principal: str, now: datetime) -> None:
        with _plainly(self.place), self._answered(key, body, now) as (status, given, told):
            if status in NEVER:
                raise Gone(f"{self.place} answered {status}: it wants no more")
            if not 200 <= status < 300:
                told = self.place.without_path(told)
                why = f"{self.place} answered {status}{f': {told}' if told else ''}"
                raise Busy(_redirected(why, status), _asked(given, now))

    def close(self) -> None:
        """Holds nothing between two requests."""

    @contextmanager
    def _answered(
        self, key: str, body: bytes, now: datetime
    ) -> Iterator[tuple[int, dict[bytes, bytes], str]]:
        """Status, headers, and how the answer begins."""
        network = Guarded(self.resolve, self.allowed, self.wants.seconds)
        pool = httpcore.ConnectionPool(ssl_context=self.trust, network_backend=network, max_connections=1)
        timeout = dict.fromkeys(("connect", "read", "write", "pool"), self.wants.seconds)
        with (
            closing(pool),
            pool.stream(
                "POST",
                self.place.url,
                headers=self._headers(key, body, now),
                content=body,
                extensions={"timeout": timeout},
            ) as answer,
        ):
            given = {name.lower(): value for name, value in answer.headers}
            yield answer.status, given, _beginning(answer.iter_stream())

    def _headers(self, key: str, body: bytes, now: datetime) -> dict[bytes | str, bytes | str]:
        said: dict[bytes | str, bytes | str] = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "user-agent": "fingerprint",
            "idempotency-key": key,
        }
        return said | dict(headers(key, int(now.timestamp()), body, self._secrets()).items())

    def _secrets(self) -> Sequence[bytes]:
        """Read for each request, so that they can be exchanged while the program runs."""
        return secrets_of(secret(self.wants.secret_file) or "")


def _trust(file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise FingerprintError(f"file {file} of the settings holds no certificates: {error}") from None


@contextmanager
def _plainly(place: Place) -> Iterator[None]:
    """What goes wrong on the way, as one sentence without the URL."""
    try:
        yield
    except Refused as refused:
        raise Away(f"{place} is not connected to: {refused}; `allow` names inner networks") from None
    except httpcore.TimeoutException:
        raise Away(f"{place} did not answer in time") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        raise Away(
            f"{place} could not be told: {visible(str(error)[:SHOWN]) or type(error).__name__}"
        ) from None


def _beginning(chunks: Iterable[bytes]) -> str:
    """Of an answer, as text; no more than MOST is read of it."""
    read = b""
    for chunk in chunks:
        read += chunk[: MOST - len(read)]
        if len(read) >= MOST:
            break
    return visible(read[: 4 * SHOWN].decode(errors="replace")[:SHOWN])


def _redirected(why: str, status: int) -> str:
    return f"{why} (redirects are not followed)" if 300 <= status < 400 else why


def _asked(given: dict[bytes, bytes], now: datetime) -> float:
    """Seconds that `Retry-After` asks for; 0 without one that can be read."""
    text = given.get(b"retry-after", b"").decode("ascii", "replace").strip()
    if text.isdecimal():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return 0.0
    return max(0.0, ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds())
