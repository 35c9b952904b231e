"""/login and /logout: with a name and a password, or through the provider (`provider.py`)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from fingerprint.core.account import Refused, SecondFactorNeeded, TooMany
from fingerprint.web.auth import TheCaller, check_origin, forget_session, session_of, where_of
from fingerprint.web.connection_limits import limited
from fingerprint.web.dependencies import Doors, TheDoors
from fingerprint.web.layout import go, local, show
from fingerprint.web.login import ask_second, let_in
from fingerprint.web.security_events import note

router = APIRouter()


@router.get("/login")
def form(request: Request, caller: TheCaller, doors: TheDoors, next: str = "/") -> Response:
    """Whoever is in already goes on."""
    return go(local(next)) if caller else _form(request, doors, next)


@router.post("/login")
@limited("passwords")
def enter(
    request: Request,
    doors: TheDoors,
    name: Annotated[str, Form(max_length=1000)] = "",
    password: Annotated[str, Form(max_length=10_000)] = "",
    next: Annotated[str, Form(max_length=4000)] = "/",
) -> Response:
    """A session, the question for a second factor, or the form again with a sentence."""
    note(request.scope, event="login", name=name)
    check_origin(request, doors.settings)
    try:
        secret = doors.people.enter(name, password, where_of(request, doors.settings))
    except SecondFactorNeeded as needed:
        note(request.scope, event="second_factor")
        return ask_second(needed, doors.settings, local(next))
    except Refused as error:
        page = _form(request, doors, next, 429 if isinstance(error, TooMany) else 401, str(error))
        if isinstance(error, TooMany):
            page.headers["Retry-After"] = str(error.seconds)
        return page
    return let_in(request, doors, secret, local(next))


@router.post("/logout")
def leave(request: Request, caller: TheCaller, doors: TheDoors) -> Response:
    """The session is over, here and in every copy of its cookie."""
    if caller:
        doors.people.leave(session_of(request, doors.settings))
    return forget_session(go("/login"), doors.settings)


def _form(request: Request, doors: Doors, next: str, status: int = 200, wrong: str = "") -> Response:
    web = doors.settings.web
    provider = web.oidc.title if doors.provider else ""
    values: dict[str, Any] = {"next": local(next), "wrong": wrong, "provider": provider}
    values |= {"passwords": not web.single_sign_on_only, "emergency": bool(web.emergency_account)}
    return show(request, "access/login.html", status, title="Log in", **values)
