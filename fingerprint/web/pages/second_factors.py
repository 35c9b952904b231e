"""/account/second: one's own second factors: authenticator apps, passkeys, recovery codes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, HTTPException, Request, Response

from fingerprint.core.alert import FingerprintError
from fingerprint.web.auth import Caller, Proven, session_of
from fingerprint.web.dependencies import Doors, TheDoors
from fingerprint.web.layout import go, show
from fingerprint.web.login import relying_party
from fingerprint.web.qr import qr_code

router = APIRouter()
HERE = "/account/second"
Typed = Annotated[str, Form(max_length=100)]


@router.get("/account/second")
def factors(request: Request, caller: Proven, doors: TheDoors) -> Response:
    return _page(request, caller, doors)


@router.post("/account/second/app")
def add_app(
    request: Request,
    caller: Proven,
    doors: TheDoors,
    label: Typed = "",
    app_secret: Typed = "",
    code: Typed = "",
) -> Response:
    """Recovery codes come with the first factor, and are in the answer alone."""
    session = session_of(request, doors.settings)
    try:
        codes = doors.people.add_app(session, label or "authenticator app", app_secret, code)
    except FingerprintError as error:
        return _page(request, caller, doors, 400, wrong=str(error), app_secret=app_secret)
    return _codes(request, codes) if codes else go(HERE)


@router.post("/account/second/passkey")
def add_passkey(
    request: Request,
    caller: Proven,
    doors: TheDoors,
    label: Typed = "",
    passkey: Annotated[str, Form(max_length=20_000)] = "",
) -> Response:
    party = relying_party(request)
    if party is None:
        raise HTTPException(400, "passkeys need a name and TLS: set web.public_url")
    session = session_of(request, doors.settings)
    try:
        codes = doors.people.add_passkey(session, label or "passkey", passkey, party)
    except FingerprintError as error:
        return _page(request, caller, doors, 400, wrong=str(error))
    return _codes(request, codes) if codes else go(HERE)


@router.post("/account/second/recovery-codes")
def new_codes(request: Request, caller: Proven, doors: TheDoors) -> Response:
    """Those before are no longer good."""
    return _codes(request, doors.people.new_recovery_codes(session_of(request, doors.settings)))


@router.post("/account/second/{factor_id}/remove")
def remove(request: Request, factor_id: str, caller: Proven, doors: TheDoors) -> Response:
    doors.people.remove_factor(session_of(request, doors.settings), factor_id)
    return go(HERE)


def _codes(request: Request, codes: list[str]) -> Response:
    return show(request, "access/codes.html", title="Recovery codes", codes=codes, next=HERE)


def _page(
    request: Request,
    caller: Caller,
    doors: Doors,
    status: int = 200,
    wrong: str = "",
    app_secret: str = "",
) -> Response:
    person, party = doors.people.person(caller.name), relying_party(request)
    values: dict[str, Any] = {"person": person, "wrong": wrong, "options": ""}
    values["factors"] = doors.people.factors(caller.name)
    values["codes_left"] = doors.people.recovery_codes_left(caller.name)
    if not person.subject:
        values["app_secret"], address = doors.people.new_app(caller.name, app_secret)
        values["qr"] = qr_code(address)
        if party:
            values["options"] = doors.people.ask_new_passkey(session_of(request, doors.settings), party)
    return show(request, "access/factors.html", status, title="Second factor", **values)
