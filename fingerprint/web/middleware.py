"""Middleware of every request: expected Host, bounded body, language, and security headers.

Example:
    >>> app.add_middleware(RequestGuard, hosts=allowed_host_names(web), max_body_bytes=MAX_BODY_BYTES, https=web.https)

The Content-Security-Policy allows only scripts, styles and connections of the app's own origin, nothing inline, and no page that
frames the app. An unexpected Host is refused, because with DNS rebinding an attacker's page could read the app.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fingerprint.core.settings import Web
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.web.language import available_languages, choose_language, using_language
from fingerprint.web.security_events import annotate_request

MAX_BODY_BYTES = 1 << 20  # of a request
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# `same-origin`, because with `no-referrer` browsers send `Origin: null` even for our own forms
SECURITY_HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
# Exempt from the check of Host, since probes use an IP address: no name leads a browser's session there
HEALTH_PATHS = frozenset({"/livez", "/readyz", "/metrics"})
NETLOC_PATTERN = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
MAX_LENGTH_DIGITS = 15  # digits of a Content-Length that is parsed
HSTS_SECONDS = 365 * DAY_SECONDS  # seconds
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
WILDCARD_HOSTS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  what these name is no Host


def allowed_host_names(web: Web) -> frozenset[str]:
    """Return the names that a Host header may have, without their port."""
    own = {_host(urlsplit(web.public_url or "").netloc), web.host if ":" not in web.host else f"[{web.host}]"}
    return LOOPBACK | {each.lower() for each in (*own, *web.allowed_hosts) if each} - WILDCARD_HOSTS


class BodyTooLarge(HTTPException):
    """The body exceeded its limit."""

    def __init__(self, max_body_bytes: int) -> None:
        super().__init__(413, f"a request has at most {max_body_bytes:,} bytes")


class RequestGuard:
    """ASGI middleware around the whole application: host check, body limit, security headers."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], max_body_bytes: int, https: bool) -> None:
        self.app, self.hosts, self.max_body_bytes = app, hosts, max_body_bytes
        self.headers = SECURITY_HEADERS | (
            {"Strict-Transport-Security": f"max-age={HSTS_SECONDS}"} if https else {}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request with the headers of every answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if refused := self._find_refusal(scope["path"], headers):
            reason, status, sentence = refused
            annotate_request(scope, reason=reason)
            await _send_refusal(status, sentence, self._add_headers(send))
            return
        await self.app(scope, self._limit_body(receive), self._add_headers(send))

    def _find_refusal(self, path: str, headers: Headers) -> tuple[str, int, str] | None:
        host = _host(headers.get("host", "")).lower()
        if path not in HEALTH_PATHS and (host not in self.hosts or len(headers.getlist("host")) != 1):
            return "host", 400, "unknown Host: set web.public_url or web.allowed_hosts"
        length = headers.get("content-length", "0")
        if length.isdecimal() and (len(length) > MAX_LENGTH_DIGITS or int(length) > self.max_body_bytes):
            return "too_large", 413, f"a request has at most {self.max_body_bytes:,} bytes"
        return None

    def _limit_body(self, receive: Receive) -> Receive:
        """Receive the body and enforce its limit; it may come in pieces without a length."""
        read = 0

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.max_body_bytes:
                raise BodyTooLarge(self.max_body_bytes)
            return message

        return bounded

    def _add_headers(self, send: Send) -> Send:
        """Send answers with the security headers; those without Cache-Control are not cached."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self.headers)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        return guarded


class LanguageMiddleware:
    """ASGI middleware: a page is written in the language of its request; the API answers in English."""

    def __init__(self, app: ASGIApp, cookie: str) -> None:
        self.app, self.cookie = app, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request in its language: the one chosen in the account menu, else the browser's."""
        if scope["type"] != "http" or scope["path"].startswith("/api/"):
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        chosen, accepted = request.cookies.get(self.cookie, ""), request.headers.get("accept-language", "")
        with using_language(choose_language(chosen, accepted, available_languages())):
            await self.app(scope, receive, send)


def _host(netloc: str) -> str:
    """Return the host of `[::1]:8080`, `[::1]`; empty for text that is no host and port."""
    found = NETLOC_PATTERN.fullmatch(netloc)
    return found["host"] if found else ""


async def _send_refusal(status: int, sentence: str, send: Send) -> None:
    title = HTTPStatus(status).phrase
    body = json.dumps({"type": "about:blank", "status": status, "title": title, "detail": sentence}).encode()
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
