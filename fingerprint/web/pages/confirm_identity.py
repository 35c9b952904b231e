"""/confirm: prove again who one is, for what would make a stolen session a permanent one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from fingerprint.core.account import Refused, Shown, TooMany
from fingerprint.web.auth import Caller, InPerson, session_of
from fingerprint.web.connection_limits import limited
from fingerprint.web.dependencies import Doors, TheDoors
from fingerprint.web.layout import go, local, show
from fingerprint.web.login import relying_party
from fingerprint.web.security_events import note

router = APIRouter()


@router.get("/confirm")
def form(request: Request, caller: InPerson, doors: TheDoors, next: str = "/") -> Response:
    return _form(request, caller, doors, next)


@router.post("/confirm")
@limited("proofs")
def confirm(
    request: Request,
    caller: InPerson,
    doors: TheDoors,
    password: Annotated[str, Form(max_length=10_000)] = "",
    code: Annotated[str, Form(max_length=100)] = "",
    passkey: Annotated[str, Form(max_length=20_000)] = "",
    next: Annotated[str, Form(max_length=4000)] = "/",
) -> Response:
    """Back to the page, or the form again with a sentence."""
    note(request.scope, event="password")
    shown = Shown(code, passkey, relying_party(request))
    try:
        doors.people.confirm(session_of(request, doors.settings), password, shown)
    except Refused as error:
        page = _form(
            request, caller, doors, next, 429 if isinstance(error, TooMany) else 403, wrong=str(error)
        )
        if isinstance(error, TooMany):
            page.headers["Retry-After"] = str(error.seconds)
        return page
    return go(local(next))


def _form(
    request: Request, caller: Caller, doors: Doors, next: str, status: int = 200, wrong: str = ""
) -> Response:
    kinds, party = doors.people.factor_kinds(caller.name), relying_party(request)
    options = ""
    if "passkey" in kinds and party:
        options = doors.people.ask_passkey(session_of(request, doors.settings), party)
    values = {"person": doors.people.person(caller.name), "kinds": kinds, "options": options}
    values |= {"next": local(next), "wrong": wrong, "provider": doors.settings.web.oidc.title}
    return show(request, "access/confirm.html", status, title="Is it you?", **values)
