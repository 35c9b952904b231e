"""Let somebody in: the cookies of a session, of a browser that is known from now on, and of a login under way.

Example:
    >>> try:
    ...     return let_in(request, doors, doors.people.enter(name, password, where), to="/")
    ... except SecondFactorNeeded as needed:
    ...     return ask_second(needed, doors.settings, to="/")
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import quote, urlsplit

from fastapi import Request, Response

from fingerprint.core.account import RelyingParty, SecondFactorNeeded
from fingerprint.core.settings import Settings
from fingerprint.web.auth import device_cookie, keep_session
from fingerprint.web.dependencies import Doors
from fingerprint.web.layout import go, link

DEVICE_SECONDS = 90 * 86400  # that a browser is known after its last login
LOGIN_SECONDS = 600  # that a second factor may take


def let_in(
    request: Request, doors: Doors, session: str, to: str = "/", answer: Response | None = None
) -> Response:
    """The session's cookie on an answer, or on the way to a page; the browser is known from now on."""
    answer, settings = answer or go(to), doors.settings
    device = doors.people.remember(session, request.cookies.get(device_cookie(settings), ""))
    _keep(answer, device_cookie(settings), device, DEVICE_SECONDS, settings)
    secure = settings.web.https
    answer.delete_cookie(login_cookie(settings), path="/", httponly=True, samesite="lax", secure=secure)
    return keep_session(answer, session, settings)


def ask_second(needed: SecondFactorNeeded, settings: Settings, to: str = "/") -> Response:
    """To the page that asks for a second factor; the browser keeps the login under way."""
    answer = go("/login/second" if to == "/" else f"/login/second?next={quote(to, safe='')}")
    _keep(answer, login_cookie(settings), needed.login, LOGIN_SECONDS, settings)
    return answer


def login_cookie(settings: Settings) -> str:
    """The cookie of a login whose password was right."""
    return "__Host-login" if settings.web.https else "login"


def relying_party(request: Request) -> RelyingParty | None:
    """To whom a passkey is bound; None where browsers have none: without TLS (but on localhost), and at an address."""
    place = urlsplit(link(request, ""))
    host = place.hostname or ""
    with suppress(ValueError):
        ip_address(host)
        return None
    if place.scheme != "https" and host != "localhost":
        return None
    return RelyingParty(f"{place.scheme}://{place.netloc}", host)


def _keep(answer: Response, name: str, value: str, seconds: int, settings: Settings) -> None:
    secure = settings.web.https
    answer.set_cookie(name, value, seconds, path="/", httponly=True, samesite="lax", secure=secure)
