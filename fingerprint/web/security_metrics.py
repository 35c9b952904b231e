"""Middleware that sees every request and its answer, and writes the security event of the answer.

Example:
    >>> app.add_middleware(SecurityEventMiddleware, events=events, settings=settings)     # the outermost
    >>> annotate_request(request.scope, event="login", name=name)                   # a page adds what only it knows
    >>> record_read(request, alert_id, 1, event_id=event_id)            # other events than refusals

A refusal is recognised by its status, so no page can forget to report it. Each request has an id of its own, which the answer
includes (`X-Request-ID`); an id that a caller sends is ignored.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fingerprint.core.log import get_logger
from fingerprint.core.settings import Settings
from fingerprint.web.auth import SAFE_METHODS, client_address
from fingerprint.web.security_events import SecurityEvent, SecurityEventLog

STATUS_REASONS = {401: "unauthenticated", 403: "forbidden", 408: "slow", 413: "too_large", 429: "throttled"}
API_PREFIX = "/api/v1"
ACCOUNT_ROUTES = (
    "/account",
    "/accounts",
    "/setup",
    "/logout",
    f"{API_PREFIX}/accounts",
    f"{API_PREFIX}/tokens",
    f"{API_PREFIX}/sessions",
)  # routes of accounts

log = get_logger("fingerprint.web")

T = TypeVar("T")


class SecurityEventMiddleware:
    """ASGI middleware that writes the security event of each answer; the outermost."""

    def __init__(self, app: ASGIApp, events: SecurityEventLog, settings: Settings) -> None:
        self.app, self.events, self.settings = app, events, settings
        self._trusts_no_proxy = not settings.web.trusted_proxies  # False after the warning about a proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, and count it by route and status."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})["request_id"] = secrets.token_hex(8)
        self.events.rotate_window()
        self._warn_of_proxy(scope)

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-ID"] = scope["state"]["request_id"]
                self._record_outcome(scope, message["status"])
            await send(message)

        await self.app(scope, receive, watched)

    def _warn_of_proxy(self, scope: Scope) -> None:
        """Warn once: behind a proxy that is not configured all clients share one address."""
        if self._trusts_no_proxy and any(name == b"x-forwarded-for" for name, _ in scope["headers"]):
            self._trusts_no_proxy = False
            log.warning(
                "X-Forwarded-For was sent, but web.trusted_proxies is 0: all clients behind that proxy share its address, "
                "and bad logins of one slow down all; set web.trusted_proxies"
            )

    def _record_outcome(self, scope: Scope, status: int) -> None:
        """Write the security event of an answer, if it is one."""
        facts: Mapping[str, str] = scope["state"].get("security", {})
        event = build_event(scope, self.settings, facts.get("event", "request"), status)
        name = facts.get("name", "")
        if reason := _refusal_reason(status, facts):
            known = {"name_digest": self.events.name_digest(name)} if name else {}
            known |= {"cause": facts["cause"]} if "cause" in facts else {}
            self.events.record_refusal(reason, replace(event, detail=known))
        elif status < 400 and "event" in facts:
            self.events.write(replace(event, outcome="allowed", who=event.who or name.strip().lower()))
        elif status < 400 and event.method not in SAFE_METHODS and _is_account_change(event):
            filled = scope.get("path_params", {})
            target = {part: str(filled[part]) for part in ("name", "token_id") if part in filled}
            self.events.write(replace(event, event="account", outcome="allowed", detail=target))


def _is_account_change(event: SecurityEvent) -> bool:
    """Return whether a person made a change; a log-out without a session does not count."""
    return event.route.startswith(ACCOUNT_ROUTES) and bool(event.who or event.route.startswith("/setup"))


def _refusal_reason(status: int, facts: Mapping[str, str]) -> str | None:
    """Return the reason of a refusal, one of `security_events.REFUSAL_REASONS`; None where the request was not refused."""
    if "reason" in facts:
        return facts["reason"]
    if status < 400:
        return None
    return "login" if "event" in facts and status in (401, 403) else STATUS_REASONS.get(status)


def record_read(request: Request, alert_id: str, records: int, event_id: str = "") -> None:
    """Record that raw records of an alert were read; `event_id` is given if it was a single one."""
    detail = {"alert_id": alert_id} | ({"event_id": event_id} if event_id else {})
    settings: Settings = request.app.state.dependencies.settings
    _event_log(request).record_raw_reads(records, build_event(request.scope, settings, "read", 200, detail))


def count_export(request: Request, export_format: str, filter_text: str, rows: Iterator[T]) -> Iterator[T]:
    """Yield the same rows; at their end, or when the client disconnects, record the export with their number."""
    count, outcome = 0, "broken off"
    try:
        for row in rows:
            count += 1
            yield row
        outcome = "allowed"
    finally:
        settings: Settings = request.app.state.dependencies.settings
        event = build_event(request.scope, settings, "export", 200, {"filter": filter_text})
        _event_log(request).record_export(export_format, count, replace(event, outcome=outcome))


def build_event(
    scope: Scope, settings: Settings, event: str, status: int, detail: Mapping[str, str] | None = None
) -> SecurityEvent:
    """Return the fields that all events of a request share: caller, address, route."""
    caller = scope["state"].get("caller")
    return SecurityEvent(
        event,
        who=caller.name if caller else "",
        address=client_address(Request(scope), settings),
        method=scope["method"],
        route=route_template(scope),
        status=status,
        request_id=scope["state"]["request_id"],
        detail=detail or {},
    )


def route_template(scope: Scope) -> str:
    """Return the template of the matching route: `/api/v1/alerts/{alert_id}`; empty without one."""
    path = str(getattr(scope.get("route"), "path", ""))
    inner = path and scope["path"].startswith(f"{API_PREFIX}/") and not path.startswith(API_PREFIX)
    # an included router knows its templates without the prefix
    return f"{API_PREFIX}{path}" if inner else path


def _event_log(request: Request) -> SecurityEventLog:
    found: SecurityEventLog = request.app.state.security
    return found
