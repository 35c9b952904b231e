"""Suppressions: list, preview, create and end them.

Example:
    $ curl -X POST -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
        -d '{"match": {"service": "ecs", "network": "10.3.0.0/16"}}' "$FINGERPRINT_URL/api/v1/suppressions/preview"
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from fingerprint.core import case
from fingerprint.core.case import Suppression, SuppressionPreview
from fingerprint.web.api.queue_params import ReasonText, RequestModel, StorableText, UtcDatetime
from fingerprint.web.api.responses import CONFLICT_RESPONSES
from fingerprint.web.auth import Engineer, Viewer
from fingerprint.web.dependencies import Deps

router = APIRouter(tags=["suppressions"])


class SuppressionMatchModel(RequestModel):
    """The match of a suppression: it hides alerts all of whose events match.

    Empty fields match everything; one must be set. `human`, `user_agent` and `error_code` need 8 characters or more, and a
    principal, or a network and an account, as well.
    """

    principal: StorableText = ""
    human: StorableText = ""
    account: StorableText = ""
    service: StorableText = ""
    action: Annotated[StorableText, Field(description="`service:Action` or `Action`")] = ""
    network: Annotated[StorableText, Field(description="a CIDR, or an address")] = ""
    user_agent: Annotated[StorableText, Field(description="its beginning")] = ""
    error_code: StorableText = ""

    def to_match(self) -> case.SuppressionMatch:
        """Return the match of the case model."""
        return case.SuppressionMatch(**self.model_dump())


class SuppressionPreviewRequest(RequestModel):
    """A match to try."""

    match: SuppressionMatchModel


class SuppressionRequest(RequestModel):
    """A new suppression: it needs a reason, and an end within a year."""

    match: SuppressionMatchModel
    reason: ReasonText
    expires_at: UtcDatetime
    force: Annotated[
        ReasonText | None,
        Field(
            description="why it may hide confirmed attacks and critical alerts; without it, it is refused where it would"
        ),
    ] = None


class EndSuppressionRequest(RequestModel):
    """The version of a suppression to end."""

    version: Annotated[int, Field(ge=0, le=2**31 - 1, description="the one that was seen")]


@router.get("/suppressions")
def list_suppressions(caller: Viewer, deps: Deps, ended: bool = False) -> list[Suppression]:
    """List suppressions in force, the next to expire first; with `ended` also those that are over."""
    return deps.store.suppressions.list_all(ended)


@router.post("/suppressions/preview")
def preview_suppression(body: SuppressionPreviewRequest, caller: Viewer, deps: Deps) -> SuppressionPreview:
    """Preview the stored alerts that a match would hide; nothing is changed."""
    return deps.store.suppressions.preview(body.match.to_match())


@router.post("/suppressions", status_code=201)
def create_suppression(body: SuppressionRequest, caller: Engineer, deps: Deps) -> Suppression:
    """Hide matching alerts, stored and future.

    Votes are never hidden; nor, without `force`, are confirmed attacks and critical alerts, also those that come later.
    """
    return deps.store.suppressions.create(
        body.match.to_match(), body.reason, body.expires_at, caller.name, body.force
    )


@router.post("/suppressions/{suppression_id}/end", responses=CONFLICT_RESPONSES)
def end_suppression(
    suppression_id: StorableText, body: EndSuppressionRequest, caller: Engineer, deps: Deps
) -> Suppression:
    """End a suppression and show its alerts again. Answers 409 where it was changed since."""
    return deps.store.suppressions.end(suppression_id, body.version, caller.name)
