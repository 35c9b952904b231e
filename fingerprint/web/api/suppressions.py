"""Suppressions: which there are, what one would hide, a new one, and the end of one.

Example:
    $ curl -X POST -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
        -d '{"match": {"service": "ecs", "network": "10.3.0.0/16"}}' "$DESK/api/v1/suppressions/preview"
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from fingerprint.core import case
from fingerprint.core.case import Preview, Suppression
from fingerprint.web.api.problems import CONFLICT
from fingerprint.web.api.queue_params import Asked, Moment, Reason, Wanted
from fingerprint.web.auth import Engineer, Viewer
from fingerprint.web.dependencies import TheDoors

router = APIRouter(tags=["suppressions"])


class Match(Asked):
    """What is hidden: alerts all of whose events are like this. What is empty asks nothing; not all may be. `human`,
    `user_agent` and `error_code` have 8 characters or more, and a principal, or a network and an account, beside them."""

    principal: Wanted = ""
    human: Wanted = ""
    account: Wanted = ""
    service: Wanted = ""
    action: Annotated[Wanted, Field(description="`service:Action` or `Action`")] = ""
    network: Annotated[Wanted, Field(description="a CIDR, or an address")] = ""
    user_agent: Annotated[Wanted, Field(description="its beginning")] = ""
    error_code: Wanted = ""

    def match(self) -> case.Match:
        return case.Match(**self.model_dump())


class Previewing(Asked):
    match: Match


class Suppressing(Asked):
    """A suppression needs a reason, and an end within a year."""

    match: Match
    reason: Reason
    expires_at: Moment
    force: Annotated[
        Reason | None,
        Field(
            description="why it may hide confirmed attacks and critical alerts; without it, it is refused where it would"
        ),
    ] = None


class Ending(Asked):
    version: Annotated[int, Field(ge=0, le=2**31 - 1, description="the one that was seen")]


@router.get("/suppressions")
def suppressions(caller: Viewer, doors: TheDoors, ended: bool = False) -> list[Suppression]:
    """Those in force, the next to expire first; with `ended` those that are over, too."""
    return doors.desk.suppressions(ended)


@router.post("/suppressions/preview")
def preview(asked: Previewing, caller: Viewer, doors: TheDoors) -> Preview:
    """What a match would hide of the alerts that are there; nothing is changed."""
    return doors.desk.preview(asked.match.match())


@router.post("/suppressions", status_code=201)
def suppress(asked: Suppressing, caller: Engineer, doors: TheDoors) -> Suppression:
    """Hide such alerts from now on, and those that are there. Votes are never hidden; nor, without `force`, are confirmed
    attacks and critical alerts, also those that come later."""
    return doors.desk.suppress(asked.match.match(), asked.reason, asked.expires_at, caller.name, asked.force)


@router.post("/suppressions/{suppression_id}/end", responses=CONFLICT)
def end(suppression_id: Wanted, asked: Ending, caller: Engineer, doors: TheDoors) -> Suppression:
    """What it hid is seen again. 409 where somebody changed it since."""
    return doors.desk.end_suppression(suppression_id, asked.version, caller.name)
