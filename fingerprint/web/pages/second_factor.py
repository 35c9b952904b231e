"""/login/second: the second factor of a login whose password was right, or its setting up where one is required."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from fingerprint.core.account import Login, Refused, Shown, TooMany
from fingerprint.core.alert import FingerprintError
from fingerprint.web.auth import check_origin, where_of
from fingerprint.web.dependencies import Doors, TheDoors
from fingerprint.web.layout import go, local, show
from fingerprint.web.login import let_in, login_cookie, relying_party
from fingerprint.web.qr import qr_code
from fingerprint.web.security_events import note

router = APIRouter()
Typed = Annotated[str, Form(max_length=100)]
Wanted = Annotated[str, Form(max_length=4000)]


@router.get("/login/second")
def form(request: Request, doors: TheDoors, next: str = "/") -> Response:
    login = doors.people.login(_secret(request, doors))
    return _form(request, doors, login, next) if login else go("/login")


@router.post("/login/second")
def finish(
    request: Request,
    doors: TheDoors,
    code: Typed = "",
    passkey: Annotated[str, Form(max_length=20_000)] = "",
    next: Wanted = "/",
) -> Response:
    """A session, or the form again with a sentence."""
    secret = _noted(request, doors)
    check_origin(request, doors.settings)
    shown = Shown(code, passkey, relying_party(request))
    try:
        session = doors.people.finish_login(secret, shown, where_of(request, doors.settings))
    except Refused as error:
        return _again(request, doors, next, error)
    return let_in(request, doors, session, local(next))


@router.post("/login/second/app")
def set_up(
    request: Request, doors: TheDoors, app_secret: Typed = "", code: Typed = "", next: Wanted = "/"
) -> Response:
    """The first authenticator app; its recovery codes are in the answer, and nowhere else."""
    secret, where = _noted(request, doors), where_of(request, doors.settings)
    check_origin(request, doors.settings)
    try:
        session, codes = doors.people.set_up_login(secret, app_secret, code, where)
    except FingerprintError as error:
        return _again(request, doors, next, error, app_secret)
    page = show(request, "access/codes.html", title="Recovery codes", codes=codes, next=local(next))
    return let_in(request, doors, session, answer=page)


def _secret(request: Request, doors: Doors) -> str:
    return request.cookies.get(login_cookie(doors.settings), "")


def _noted(request: Request, doors: Doors) -> str:
    """The secret of the login under way; what becomes of it is a security event."""
    secret = _secret(request, doors)
    login = doors.people.login(secret)
    note(request.scope, event="login", name=login.name if login else "")
    return secret


def _again(
    request: Request, doors: Doors, next: str, error: FingerprintError, app_secret: str = ""
) -> Response:
    """The form with what was wrong; the login page once the login under way is over."""
    login = doors.people.login(_secret(request, doors))
    if login is None:
        note(request.scope, why="login")
        return go("/login")
    status = 429 if isinstance(error, TooMany) else 401 if isinstance(error, Refused) else 400
    page = _form(request, doors, login, next, status, wrong=str(error), app_secret=app_secret)
    if isinstance(error, TooMany):
        page.headers["Retry-After"] = str(error.seconds)
    return page


def _form(
    request: Request,
    doors: Doors,
    login: Login,
    next: str,
    status: int = 200,
    wrong: str = "",
    app_secret: str = "",
) -> Response:
    party = relying_party(request)
    values: dict[str, Any] = {"login": login, "next": local(next), "wrong": wrong, "options": ""}
    if "passkey" in login.kinds and party:
        values["options"] = doors.people.ask_passkey(_secret(request, doors), party)
    if not login.kinds:
        values["app_secret"], address = doors.people.new_app(login.name, app_secret)
        values["qr"] = qr_code(address)
    return show(request, "access/second.html", status, title="Second factor", **values)
