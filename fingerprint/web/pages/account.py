"""/account: one's own password, sessions and tokens; second factors are in `factors.py`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Form, HTTPException, Request, Response

from fingerprint.core.account import SCOPES, Refused, Scope, TooMany, may
from fingerprint.core.alert import FingerprintError
from fingerprint.web.auth import Caller, InPerson, Proven, session_of, where_of
from fingerprint.web.connection_limits import limited
from fingerprint.web.dependencies import Doors, TheDoors
from fingerprint.web.layout import go, show
from fingerprint.web.login import let_in
from fingerprint.web.security_events import note

router = APIRouter()
MAY: dict[Scope, str] = {
    "read": "looks at everything but the audit",
    "triage": "decides, assigns and notes",
    "engineer": "suppresses, sets thresholds and reads the audit",
    "admin": "sees to people, everybody's tokens and retention",
}
DAYS = (7, 30, 90, 180, 365)  # that a token may be good for


@router.get("/account")
def account(request: Request, caller: InPerson, doors: TheDoors) -> Response:
    return _page(request, caller, doors)


@router.post("/account/password")
@limited("proofs")
def change_password(
    request: Request,
    caller: InPerson,
    doors: TheDoors,
    old: Annotated[str, Form(max_length=10_000)] = "",
    new: Annotated[str, Form(max_length=10_000)] = "",
    again: Annotated[str, Form(max_length=10_000)] = "",
    end_tokens: Annotated[bool, Form()] = False,
) -> Response:
    """Every session ends but the one that is begun here, and every token, if the box is ticked."""
    note(request.scope, event="password")
    if new != again:
        return _page(request, caller, doors, 400, wrong="the two new passwords differ")
    session, where = session_of(request, doors.settings), where_of(request, doors.settings)
    try:
        secret = doors.people.change_password(session, old, new, where, end_tokens)
    except TooMany as error:
        return _page(request, caller, doors, 429, wrong=str(error))
    except Refused:
        return _page(request, caller, doors, 403, wrong="the old password is wrong")
    except FingerprintError as error:
        return _page(request, caller, doors, 400, wrong=str(error))
    return let_in(request, doors, secret, "/account")


@router.post("/account/sessions/{session_id}/end")
def end_session(session_id: str, caller: InPerson, doors: TheDoors) -> Response:
    doors.people.end_session(session_id, by=caller.name, owner=caller.name)
    return go("/account")


@router.post("/account/leave-others")
def leave_others(request: Request, caller: InPerson, doors: TheDoors) -> Response:
    doors.people.leave_others(caller.name, session_of(request, doors.settings))
    return go("/account")


@router.post("/account/tokens")
def make_token(
    request: Request,
    caller: Proven,
    doors: TheDoors,
    label: Annotated[str, Form(max_length=1000)] = "",
    scope: Annotated[list[Scope] | None, Form()] = None,
    days: Annotated[int, Form()] = 90,
) -> Response:
    """The token is in the answer, and nowhere else: so no redirect."""
    if days not in DAYS:
        raise HTTPException(422, f"a token is good for one of {', '.join(map(str, DAYS))} days")
    ends = doors.clock.now() + timedelta(days=days)
    try:
        token, secret = doors.people.make_token(caller.name, label, scope or (), ends, by=caller.name)
    except FingerprintError as error:
        return _page(request, caller, doors, 400, wrong=str(error))
    return _page(request, caller, doors, made=token, secret=secret)


@router.post("/account/tokens/{token_id}/revoke")
def revoke(token_id: str, caller: InPerson, doors: TheDoors) -> Response:
    doors.people.revoke(token_id, by=caller.name, owner=caller.name)
    return go("/account")


def _page(request: Request, caller: Caller, doors: Doors, status: int = 200, **values: Any) -> Response:
    values = {"wrong": "", "made": None, "secret": ""} | values
    now = doors.clock.now()
    tokens = [
        each for each in doors.people.tokens(caller.name) if not each.revoked_at and each.expires_at > now
    ]
    scopes = {scope: MAY[scope] for scope, role in SCOPES.items() if may(caller.role, role)}
    values |= {"tokens": tokens, "scopes": scopes, "days": DAYS, "person": doors.people.person(caller.name)}
    values |= {"sessions": doors.people.sessions(caller.name), "factors": doors.people.factors(caller.name)}
    values["current"] = doors.people.session(session_of(request, doors.settings))
    return show(request, "access/account.html", status, title="Account", **values)
