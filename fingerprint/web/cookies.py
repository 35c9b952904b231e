"""Cookies of the web app: one list of their names, and the attributes that all of them have.

Example:
    >>> set_cookie(response, "language", "de", settings, seconds=600)
    >>> read_cookie(request, "language", settings)
    'de'

Scripts cannot read them, and browsers do not send them with another site's forms. Over https the prefix `__Host-` binds them to
this host.
"""

from __future__ import annotations

from typing import Literal

from fastapi import Request, Response

from fingerprint.core.settings import Settings

CookieName = Literal[
    "session",  # the secret of a session
    "device",  # marks a browser with an earlier login
    "login",  # a login whose password was right, until its second factor
    "provider",  # a login at the OpenID provider
    "flash",  # the result of a change, for the next page
    "language",
    "display",  # of the queue
]


def cookie_name(name: CookieName, settings: Settings) -> str:
    """Return a cookie's name in the browser; over https it has the prefix, which browsers accept only there."""
    return f"__Host-{name}" if settings.web.https else name


def read_cookie(request: Request, name: CookieName, settings: Settings) -> str:
    """Return a cookie's value, which may be any text, since the browser sent it; empty without one."""
    return request.cookies.get(cookie_name(name, settings), "")


def set_cookie(
    response: Response, name: CookieName, value: str, settings: Settings, seconds: int | None = None
) -> None:
    """Set a cookie for `seconds`, or by default until the browser is closed."""
    response.set_cookie(
        cookie_name(name, settings),
        value,
        seconds,
        path="/",
        httponly=True,
        samesite="lax",
        secure=settings.web.https,
    )


def delete_cookie(response: Response, name: CookieName, settings: Settings) -> None:
    """Delete a cookie."""
    response.delete_cookie(
        cookie_name(name, settings), path="/", httponly=True, samesite="lax", secure=settings.web.https
    )
