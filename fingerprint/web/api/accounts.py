"""People: who has an account, in which role; links for new accounts and new passwords. For admins.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$DESK/api/v1/people"
    [{"name": "maria", "role": "analyst", ...}]

A token reads. Changes are made by an admin in person, with a session: who finds a token must not make accounts of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from fingerprint.core.account import Role, Session
from fingerprint.web.api.queue_params import Asked, Wanted
from fingerprint.web.api.responses import Said
from fingerprint.web.auth import Admin, AdminInPerson, ProvenAdmin
from fingerprint.web.dependencies import TheDoors
from fingerprint.web.layout import link

router = APIRouter(tags=["people"])


class Person(Said):
    """`invited`: has a link and no password yet. `issuer`: where they log in, empty for a password here."""

    name: str
    role: Role
    created_at: datetime
    disabled_at: datetime | None
    last_login: datetime | None
    issuer: str
    invited: bool


class Inviting(Asked):
    name: Annotated[
        str, Field(min_length=1, max_length=64, description="small letters, digits and . _ @ + -")
    ]
    role: Role = "analyst"


class Setting(Asked):
    role: Role


class Link(Said):
    """Sets a password, once, within 24 hours; it is shown here and never again."""

    name: str
    link: str


@router.get("/people")
def people(caller: Admin, doors: TheDoors) -> list[Person]:
    """Every account, by name."""
    return [Person.model_validate(each) for each in doors.people.persons()]


@router.post("/people", status_code=201)
def invite(asked: Inviting, request: Request, caller: ProvenAdmin, doors: TheDoors) -> Link:
    """A new account, and the link for whoever is to have it."""
    secret = doors.people.invite(asked.name, asked.role, by=caller.name)
    return Link(name=asked.name.strip().lower(), link=link(request, f"/setup/{secret}"))


@router.post("/people/{name}/link", status_code=201)
def new_link(name: Wanted, request: Request, caller: ProvenAdmin, doors: TheDoors) -> Link:
    """For a new password; the link before is no longer good."""
    secret = doors.people.invite(name, None, by=caller.name)
    return Link(name=name.strip().lower(), link=link(request, f"/setup/{secret}"))


@router.post("/people/{name}/role")
def set_role(name: Wanted, asked: Setting, caller: ProvenAdmin, doors: TheDoors) -> Person:
    """Their sessions end. The last admin keeps the role."""
    doors.people.set_role(name, asked.role, by=caller.name)
    return Person.model_validate(doors.people.person(name))


@router.post("/people/{name}/disable")
def disable(name: Wanted, caller: AdminInPerson, doors: TheDoors) -> Person:
    """Sessions, tokens and links end at once. The last admin stays."""
    doors.people.disable(name, by=caller.name)
    return Person.model_validate(doors.people.person(name))


@router.post("/people/{name}/enable")
def enable(name: Wanted, caller: ProvenAdmin, doors: TheDoors) -> Person:
    """They may log in again; their tokens stay revoked."""
    doors.people.enable(name, by=caller.name)
    return Person.model_validate(doors.people.person(name))


@router.get("/people/{name}/sessions")
def sessions(name: Wanted, caller: AdminInPerson, doors: TheDoors) -> list[Session]:
    """Where somebody is logged in, the session seen last first."""
    return doors.people.sessions(name)


@router.post("/people/{name}/end")
def end(name: Wanted, caller: AdminInPerson, doors: TheDoors) -> Person:
    """Sessions and tokens end at once; the account stays."""
    doors.people.end_all(name, by=caller.name)
    return Person.model_validate(doors.people.person(name))


@router.post("/people/{name}/reset-second-factor")
def reset_second_factor(name: Wanted, caller: ProvenAdmin, doors: TheDoors) -> Person:
    """For somebody who lost it. Their sessions end."""
    doors.people.reset_factors(name, by=caller.name)
    return Person.model_validate(doors.people.person(name))
