"""Login sessions of the caller: list and end them. For people, never for tokens.

Example:
    $ curl -b "session=$SESSION" "$FINGERPRINT_URL/api/v1/sessions"
    [{"session_id": "9f2c...", "address": "192.0.2.7", "agent": "Mozilla/5.0 ...", "current": true, ...}]
"""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Request

from fingerprint.core.account import ProofKind
from fingerprint.web.api.queue_params import StorableText
from fingerprint.web.api.responses import ResponseModel
from fingerprint.web.auth import SessionCaller, session_secret
from fingerprint.web.dependencies import Deps

router = APIRouter(tags=["sessions"])


class SessionResponse(ResponseModel):
    """A session. `agent` is the browser's User-Agent; `proof` is how the session was opened."""

    session_id: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    address: str
    agent: str
    proof: ProofKind
    current: bool = False


class EndedSessions(ResponseModel):
    """The number of sessions that were ended."""

    sessions: int


@router.get("/sessions")
def list_sessions(request: Request, caller: SessionCaller, deps: Deps) -> list[SessionResponse]:
    """List the caller's sessions, the most recently seen first."""
    current = deps.account_store.sessions.get(session_secret(request, deps.settings))
    found = [
        (each, SessionResponse.model_validate(each))
        for each in deps.account_store.sessions.of_account(caller.name)
    ]
    return [
        answer.model_copy(update={"current": current is not None and each.session_id == current.session_id})
        for each, answer in found
    ]


@router.delete("/sessions/{session_id}", status_code=204)
def end_session(session_id: StorableText, caller: SessionCaller, deps: Deps) -> None:
    """End a session at once. An admin may end the sessions of others."""
    deps.account_store.sessions.end(
        session_id, by=caller.name, owner=None if caller.has_role("admin") else caller.name
    )


@router.delete("/sessions")
def end_other_sessions(request: Request, caller: SessionCaller, deps: Deps) -> EndedSessions:
    """End the caller's sessions except this one."""
    return EndedSessions(
        sessions=deps.account_store.sessions.end_others(caller.name, session_secret(request, deps.settings))
    )
