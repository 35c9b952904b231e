"""/people: who has an account, in which role; links for new accounts and new passwords; everybody's tokens. For admins."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from fingerprint.core.account import ROLES, Role
from fingerprint.core.alert import FingerprintError
from fingerprint.web.auth import AdminInPerson, Caller, ProvenAdmin
from fingerprint.web.dependencies import Doors, TheDoors
from fingerprint.web.layout import go, link, show

router = APIRouter()
Name = Annotated[str, Form(max_length=1000)]


@router.get("/people")
def people(request: Request, caller: AdminInPerson, doors: TheDoors) -> Response:
    return _page(request, doors)


@router.post("/people")
def invite(
    request: Request,
    caller: ProvenAdmin,
    doors: TheDoors,
    name: Name = "",
    role: Annotated[Role, Form()] = "analyst",
) -> Response:
    """A new account; the link is in the answer, and nowhere else."""
    return _invited(request, caller, doors, name, role)


@router.post("/people/{name}/link")
def new_link(request: Request, name: str, caller: ProvenAdmin, doors: TheDoors) -> Response:
    """For somebody who forgot their password, or whose link is too old."""
    return _invited(request, caller, doors, name, None)


@router.post("/people/{name}/role")
def set_role(
    request: Request, name: str, caller: ProvenAdmin, doors: TheDoors, role: Annotated[Role, Form()]
) -> Response:
    try:
        doors.people.set_role(name, role, by=caller.name)
    except FingerprintError as error:
        return _page(request, doors, 409, wrong=str(error))
    return go("/people")


@router.post("/people/{name}/disable")
def disable(request: Request, name: str, caller: AdminInPerson, doors: TheDoors) -> Response:
    try:
        doors.people.disable(name, by=caller.name)
    except FingerprintError as error:
        return _page(request, doors, 409, wrong=str(error))
    return go("/people")


@router.post("/people/{name}/enable")
def enable(name: str, caller: ProvenAdmin, doors: TheDoors) -> Response:
    doors.people.enable(name, by=caller.name)
    return go("/people")


@router.post("/people/{name}/end")
def end(name: str, caller: AdminInPerson, doors: TheDoors) -> Response:
    """Their sessions and tokens."""
    doors.people.end_all(name, by=caller.name)
    return go("/people")


@router.post("/people/{name}/reset-second-factor")
def reset_second_factor(name: str, caller: ProvenAdmin, doors: TheDoors) -> Response:
    """For somebody who lost it."""
    doors.people.reset_factors(name, by=caller.name)
    return go("/people")


@router.post("/people/tokens/{token_id}/revoke")
def revoke(token_id: str, caller: AdminInPerson, doors: TheDoors) -> Response:
    doors.people.revoke(token_id, by=caller.name)
    return go("/people")


def _invited(request: Request, caller: Caller, doors: Doors, name: str, role: Role | None) -> Response:
    try:
        secret = doors.people.invite(name, role, by=caller.name)
    except FingerprintError as error:
        return _page(request, doors, 409, wrong=str(error))
    return _page(request, doors, invited=name.strip().lower(), link=link(request, f"/setup/{secret}"))


def _page(request: Request, doors: Doors, status: int = 200, **values: Any) -> Response:
    values = {"wrong": "", "invited": "", "link": ""} | values
    now = doors.clock.now()
    tokens = [token for token in doors.people.tokens() if not token.revoked_at and token.expires_at > now]
    values |= {"persons": doors.people.persons(), "tokens": tokens, "roles": ROLES}
    values["secured"] = doors.people.with_second_factor()
    return show(request, "access/people.html", status, title="People", **values)
