"""Complete a login: cookies of the session, of the known browser and of a pending login; QR codes for authenticator apps.

Example:
    >>> try:
    ...     return complete_login(request, deps, deps.account_store.logins.log_in(name, password, where), to="/")
    ... except SecondFactorNeeded as needed:
    ...     return redirect_to_second_factor(needed, deps.settings, to="/")
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
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.web.auth import set_session_cookie
from fingerprint.web.cookies import delete_cookie, read_cookie, set_cookie
from fingerprint.web.dependencies import Dependencies
from fingerprint.web.layout import absolute_url, redirect

DEVICE_SECONDS = 90 * DAY_SECONDS  # a browser is known for so long after its last login
LOGIN_SECONDS = 600  # time to give the second factor


def complete_login(
    request: Request, deps: Dependencies, session: str, to: str = "/", response: Response | None = None
) -> Response:
    """Set the session's cookie on `response`, or on a redirect to `to`, and remember the browser."""
    response, settings = response or redirect(to), deps.settings
    device = deps.account_store.logins.remember_browser(session, read_cookie(request, "device", settings))
    set_cookie(response, "device", device, settings, DEVICE_SECONDS)
    delete_cookie(response, "login", settings)
    return set_session_cookie(response, session, settings)


def redirect_to_second_factor(needed: SecondFactorNeeded, settings: Settings, to: str = "/") -> Response:
    """Redirect to the second factor; the browser keeps the pending login."""
    answer = redirect("/login/second" if to == "/" else f"/login/second?next={quote(to, safe='')}")
    set_cookie(answer, "login", needed.login, settings, LOGIN_SECONDS)
    return answer


def relying_party(request: Request) -> RelyingParty | None:
    """Return the relying party of passkeys, or None if browsers do not support passkeys here.

    They do not at an IP address, nor without TLS, except on localhost.
    """
    place = urlsplit(absolute_url(request, ""))
    host = place.hostname or ""
    with suppress(ValueError):
        ip_address(host)
        return None
    if place.scheme != "https" and host != "localhost":
        return None
    return RelyingParty(f"{place.scheme}://{place.netloc}", host)


MODULE_PIXELS = 4  # pixels of a square


def qr_code(text: str) -> Markup:
    """Return a QR code, black on white even on a dark page, because not every camera reads white on black."""
    made = segno.make(text, micro=False)
    svg = made.svg_inline(
        scale=MODULE_PIXELS, light="#fff", dark="#000", title="QR code for an authenticator app"
    )
    return Markup(svg)  # noqa: S704  segno writes paths, and escapes the title
