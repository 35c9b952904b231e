"""Sessions: where one is logged in, and how to end that. For people, never for tokens.

Example:
    $ curl -b "session=$SESSION" "$DESK/api/v1/sessions"
    [{"session_id": "9f2c...", "address": "192.0.2.7", "agent": "Mozilla/5.0 ...", "current": true, ...}]
"""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Request

from fingerprint.core.account import Proof
from fingerprint.web.api.queue_params import Wanted
from fingerprint.web.api.responses import Said
from fingerprint.web.auth import InPerson, session_of
from fingerprint.web.dependencies import TheDoors

router = APIRouter(tags=["sessions"])


class Listed(Said):
    """`agent` is what the browser says it is; `proof` is what opened the session."""

    session_id: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    address: str
    agent: str
    proof: Proof
    current: bool = False


class Ended(Said):
    sessions: int


@router.get("/sessions")
def sessions(request: Request, caller: InPerson, doors: TheDoors) -> list[Listed]:
    """My own, the one seen last first."""
    mine = doors.people.session(session_of(request, doors.settings))
    found = [(each, Listed.model_validate(each)) for each in doors.people.sessions(caller.name)]
    return [
        said.model_copy(update={"current": mine is not None and each.session_id == mine.session_id})
        for each, said in found
    ]


@router.delete("/sessions/{session_id}", status_code=204)
def end(session_id: Wanted, caller: InPerson, doors: TheDoors) -> None:
    """It is over at once. An admin ends anybody's."""
    doors.people.end_session(session_id, by=caller.name, owner=None if caller.may("admin") else caller.name)


@router.delete("/sessions")
def end_others(request: Request, caller: InPerson, doors: TheDoors) -> Ended:
    """All my sessions but this one."""
    return Ended(sessions=doors.people.leave_others(caller.name, session_of(request, doors.settings)))
