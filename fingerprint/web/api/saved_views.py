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
    """The queue's address without its host: `?status=open&service=iam`."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_REQUEST_TEXT_LENGTH)]


class CallerResponse(ResponseModel):
    """Who asks; a token's caller has scopes."""

    name: str
    role: Role
    scopes: tuple[Scope, ...]


@router.get("/me")
def get_caller(caller: Viewer) -> CallerResponse:
    """Who I am here, and what I may."""
    return CallerResponse(name=caller.name, role=caller.role, scopes=caller.scopes)


@router.get("/views")
def list_views(caller: Viewer, deps: Deps) -> list[SavedView]:
    """My own."""
    return deps.store.views.of_owner(caller.name)


@router.put("/views/{name}")
def save_view(name: ViewName, body: SavedViewRequest, caller: Analyst, deps: Deps) -> SavedView:
    """Keep a filter under a name; what was there under it is overwritten."""
    query = addresses.parse_query_string(body.query).query
    view = SavedView(caller.name, name, f"?{query}")
    deps.store.views.save(view)
    return view


@router.delete("/views/{name}", status_code=204)
def delete_view(name: ViewName, caller: Analyst, deps: Deps) -> None:
    """Forget it; one that is not there is no error."""
    deps.store.views.delete(caller.name, name)
