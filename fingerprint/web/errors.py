"""Error answers: problem+json (RFC 9457) under /api, a page elsewhere.

Example:
    >>> raise HTTPException(409, "changed by maria a minute ago: reload it")
    {"type": "about:blank", "status": 409, "title": "Conflict", "detail": "changed by maria a minute ago: reload it"}

A FingerprintError can be corrected by the caller: it becomes 400, or as ERROR_STATUS says, with its sentence. Any other exception
is 500 without its text, which is logged once (`UnhandledErrorMiddleware`).
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fingerprint.core.account import AuthenticationFailed, TooManyAttempts
from fingerprint.core.errors import Conflict, FingerprintError, NotFound, ServerUnavailable
from fingerprint.core.log import get_logger
from fingerprint.core.sanitize import printable
from fingerprint.web.auth import SAFE_METHODS, CrossSiteRequest, LoginRequired, is_api_request
from fingerprint.web.connection_limits import ServerBusy
from fingerprint.web.layout import redirect, render_page
from fingerprint.web.security_events import annotate_request
from fingerprint.web.security_metrics import route_template

ERROR_STATUS: Mapping[type[FingerprintError], int] = {
    AuthenticationFailed: 403,
    NotFound: 404,
    Conflict: 409,
    ServerUnavailable: 503,
}

log = get_logger("fingerprint.web")


class ProblemResponse(JSONResponse):
    """A problem of RFC 9457."""

    media_type = "application/problem+json"


def problem_response(
    request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the answer to a request that failed, for a program or for a person."""
    title = HTTPStatus(status).phrase
    if is_api_request(request):
        problem = {"type": "about:blank", "status": status, "title": title, "detail": printable(detail)}
        return ProblemResponse(problem, status, dict(headers or {}))
    page = render_page(request, "problem.html", status, title=title, detail=detail)
    page.headers.update(headers or {})
    return page


def install_error_handlers(app: FastAPI) -> None:
    """Install a handler for every kind of error."""
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(LoginRequired, _redirect_to_login)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(FingerprintError, _user_error)
    app.add_middleware(UnhandledErrorMiddleware)


class UnhandledErrorMiddleware:
    """ASGI middleware: log and answer errors that no other handler answers.

    A handler of `Exception` is not enough: Starlette raises the error again after it, so the server logs the trace a second time.
    Its answer also bypasses all other middleware, so it lacks the headers of `RequestGuard`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, and answer an unhandled error with status 500."""
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, sent)
        except ClientDisconnect:
            return  # no client to answer
        except Exception as error:
            request = Request(scope)
            _log_error(request, error)
            if not begun:  # otherwise the server ends the answer in the middle
                await (await run_in_threadpool(_internal_error, request))(scope, receive, send)


def _http_error(request: Request, error: Any) -> Response:
    if isinstance(error, CrossSiteRequest):
        annotate_request(request.scope, reason="cross_site")
    if isinstance(error, ServerBusy):
        annotate_request(request.scope, reason="busy")
    return problem_response(request, error.status_code, str(error.detail), error.headers)


def _redirect_to_login(request: Request, error: Exception) -> Response:
    """Redirect to the login, and from there back to the page; a form sent after the session's end is not repeated."""
    query = f"?{request.url.query}" if request.url.query else ""
    back = f"{request.url.path}{query}" if request.method in SAFE_METHODS else "/"
    return redirect("/login" if back == "/" else f"/login?next={quote(back, safe='')}")


def _validation_error(request: Request, error: Any) -> Response:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    return problem_response(request, 422, f"{where}: {first['msg'].removeprefix('Value error, ')}")


def _user_error(request: Request, error: Exception) -> Response:
    if isinstance(error, TooManyAttempts):
        return problem_response(request, 429, str(error), {"Retry-After": str(error.seconds)})
    if notes := getattr(error, "__notes__", ()):  # what is for the log alone
        annotate_request(request.scope, cause="; ".join(notes))
    status = next((status for kind, status in ERROR_STATUS.items() if isinstance(error, kind)), 400)
    return problem_response(request, status, str(error))


def _log_error(request: Request, error: Exception) -> None:
    route = route_template(request.scope)  # without what was filled in: a link's secret is
    request_id = getattr(request.state, "request_id", "")
    log.error("request failed", exc_info=error, route=route, request_id=request_id)


def _internal_error(request: Request) -> Response:
    return problem_response(request, 500, "internal error, logged on this server; nothing was changed")
