"""/setup/<secret>: a link that sets a first or a new password, once. Opening it uses nothing up: mail programs open links."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request, Response

from fingerprint.core.account import Invitation, Refused, SecondFactorNeeded
from fingerprint.core.alert import FingerprintError
from fingerprint.web.auth import check_origin, where_of
from fingerprint.web.connection_limits import limited
from fingerprint.web.dependencies import Doors, TheDoors
from fingerprint.web.layout import show
from fingerprint.web.login import ask_second, let_in
from fingerprint.web.security_events import note

router = APIRouter()
OVER = "this link was used, or is older than a day: ask for another"


@router.get("/setup/{secret}")
def form(request: Request, secret: str, doors: TheDoors) -> Response:
    return _form(request, _good(doors, secret))


@router.post("/setup/{secret}")
@limited("passwords")
def accept(
    request: Request,
    secret: str,
    doors: TheDoors,
    name: Annotated[str, Form(max_length=1000)] = "",
    password: Annotated[str, Form(max_length=10_000)] = "",
    again: Annotated[str, Form(max_length=10_000)] = "",
) -> Response:
    """A session, the question for a second factor, or the form again with a sentence."""
    check_origin(request, doors.settings)
    invited = _good(doors, secret)
    if password != again:
        return _form(request, invited, "the two passwords differ", name)
    try:
        session = doors.people.accept(secret, name, password, where_of(request, doors.settings))
        return let_in(request, doors, session)
    except SecondFactorNeeded as needed:
        note(request.scope, event="second_factor")
        return ask_second(needed, doors.settings)
    except Refused:
        raise
    except FingerprintError as error:
        return _form(request, invited, str(error), name)


def _good(doors: Doors, secret: str) -> Invitation:
    invited = doors.people.invitation(secret)
    if invited is None:
        raise HTTPException(404, OVER)
    return invited


def _form(request: Request, invited: Invitation, wrong: str = "", name: str = "") -> Response:
    title = "Set a password" if invited.name else "The first account"
    values = {"invited": invited, "wrong": wrong, "name": name}
    return show(request, "access/setup.html", 400 if wrong else 200, title=title, **values)
