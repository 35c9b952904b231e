"""Views: filters of the queue that somebody keeps under a name, and who asks.

Example:
    $ curl -X PUT -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
        -d '{"query": "?service=iam&least_urgency=50"}' "$DESK/api/v1/views/urgent%20iam"
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import AfterValidator, Field, StringConstraints

from fingerprint.core.account import Role, Scope
from fingerprint.core.case import View
from fingerprint.core.sanitize import storable
from fingerprint.web import queue_query as addresses
from fingerprint.web.api.queue_params import LONGEST, WRITTEN, Asked
from fingerprint.web.api.responses import Said
from fingerprint.web.auth import Analyst, Viewer
from fingerprint.web.dependencies import TheDoors

router = APIRouter(tags=["views"])
Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, pattern=WRITTEN, max_length=100),
    AfterValidator(storable),
]


class Viewing(Asked):
    """The queue's address without its host: `?status=open&service=iam`."""

    query: Annotated[str, Field(min_length=1, max_length=LONGEST)]


class Me(Said):
    """Who asks; a token's caller has scopes."""

    name: str
    role: Role
    scopes: tuple[Scope, ...]


@router.get("/me")
def me(caller: Viewer) -> Me:
    """Who I am here, and what I may."""
    return Me(name=caller.name, role=caller.role, scopes=caller.scopes)


@router.get("/views")
def views(caller: Viewer, doors: TheDoors) -> list[View]:
    """My own."""
    return doors.desk.views(caller.name)


@router.put("/views/{name}")
def save(name: Name, asked: Viewing, caller: Analyst, doors: TheDoors) -> View:
    """Keep a filter under a name; what was there under it is overwritten."""
    query = addresses.of_query(asked.query).query
    view = View(caller.name, name, f"?{query}")
    doors.desk.save_view(view)
    return view


@router.delete("/views/{name}", status_code=204)
def forget(name: Name, caller: Analyst, doors: TheDoors) -> None:
    """Forget it; one that is not there is no error."""
    doors.desk.forget_view(caller.name, name)
