"""Saved views: named filters of the queue, and the identity of the caller.

Example:
    $ curl -X PUT -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
        -d '{"query": "service=iam&least_urgency=50"}' "$FINGERPRINT_URL/api/v1/views/urgent%20iam"
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import AfterValidator, Field, StringConstraints

from fingerprint.core.account import Role, Scope
from fingerprint.core.case import SavedView
from fingerprint.core.sanitize import storable
from fingerprint.web import queue_query as addresses
from fingerprint.web.api.queue_params import MAX_REQUEST_TEXT_LENGTH, NON_BLANK_PATTERN, RequestModel
from fingerprint.web.api.responses import ResponseModel
from fingerprint.web.auth import Analyst, Viewer
from fingerprint.web.dependencies import Deps

router = APIRouter(tags=["views"])
ViewName = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, pattern=NON_BLANK_PATTERN, max_length=100),
    AfterValidator(storable),
]


class SavedViewRequest(RequestModel):
    """A query of the queue as its address has it: `status=open&service=iam`."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_REQUEST_TEXT_LENGTH)]


class CallerResponse(ResponseModel):
    """The caller; a token's caller has scopes."""

    name: str
    role: Role
    scopes: tuple[Scope, ...]


@router.get("/me")
def get_caller(caller: Viewer) -> CallerResponse:
    """Return the caller's name, role and scopes."""
    return CallerResponse(name=caller.name, role=caller.role, scopes=caller.scopes)


@router.get("/views")
def list_views(caller: Viewer, deps: Deps) -> list[SavedView]:
    """List the caller's views."""
    return deps.store.views.of_owner(caller.name)


@router.put("/views/{name}")
def save_view(name: ViewName, body: SavedViewRequest, caller: Analyst, deps: Deps) -> SavedView:
    """Save a filter under a name and overwrite an earlier one."""
    query = addresses.parse_query_string(body.query).query
    view = SavedView(caller.name, name, query)
    deps.store.views.save(view)
    return view


@router.delete("/views/{name}", status_code=204)
def delete_view(name: ViewName, caller: Analyst, deps: Deps) -> None:
    """Delete a view; a missing one is no error."""
    deps.store.views.delete(caller.name, name)
