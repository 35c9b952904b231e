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

import segno
from fastapi import Request, Response
from markupsafe import Markup

from fingerprint.core.account import RelyingParty, SecondFactorNeeded
from fingerprint.core.settings import Settings
from fingerprint.web.auth import device_cookie_name, set_session_cookie
from fingerprint.web.dependencies import Dependencies
from fingerprint.web.layout import absolute_url, redirect

DEVICE_SECONDS = 90 * 86400  # that a browser is known after its last login
LOGIN_SECONDS = 600  # that a second factor may take


def complete_login(
    request: Request, deps: Dependencies, session: str, to: str = "/", response: Response | None = None
) -> Response:
    """The session's cookie on an answer, or on the way to a page; the browser is known from now on."""
    response, settings = response or redirect(to), deps.settings
    device = deps.accounts.remember_browser(session, request.cookies.get(device_cookie_name(settings), ""))
    _set_cookie(response, device_cookie_name(settings), device, DEVICE_SECONDS, settings)
    secure = settings.web.https
    response.delete_cookie(
        login_cookie_name(settings), path="/", httponly=True, samesite="lax", secure=secure
    )
    return set_session_cookie(response, session, settings)


def redirect_to_second_factor(needed: SecondFactorNeeded, settings: Settings, to: str = "/") -> Response:
    """To the page that asks for a second factor; the browser keeps the login under way."""
    answer = redirect("/login/second" if to == "/" else f"/login/second?next={quote(to, safe='')}")
    _set_cookie(answer, login_cookie_name(settings), needed.login, LOGIN_SECONDS, settings)
    return answer


def login_cookie_name(settings: Settings) -> str:
    """The cookie of a login whose password was right."""
    return "__Host-login" if settings.web.https else "login"


def relying_party(request: Request) -> RelyingParty | None:
    """To whom a passkey is bound; None where browsers have none: without TLS (but on localhost), and at an address."""
    place = urlsplit(absolute_url(request, ""))
    host = place.hostname or ""
    with suppress(ValueError):
        ip_address(host)
        return None
    if place.scheme != "https" and host != "localhost":
        return None
    return RelyingParty(f"{place.scheme}://{place.netloc}", host)


def _set_cookie(response: Response, name: str, value: str, seconds: int, settings: Settings) -> None:
    secure = settings.web.https
    response.set_cookie(name, value, seconds, path="/", httponly=True, samesite="lax", secure=secure)


MODULE_PIXELS = 4  # pixels of a square


def qr_code(text: str) -> Markup:
    """Return a QR code, black on white also where the page is dark: not every camera reads the other way round."""
    made = segno.make(text, micro=False)
    svg = made.svg_inline(
        scale=MODULE_PIXELS, light="#fff", dark="#000", title="QR code for an authenticator app"
    )
    return Markup(svg)  # noqa: S704  segno writes paths, and escapes the title
