"""What people do to alerts: decide, assign, reopen, note; to one, or to many at once.

Example:
    $ curl -X POST -H "Authorization: Bearer $TOKEN" -H 'If-Match: "0-9"' -H "Content-Type: application/json" \\
        -d '{"decision": "benign", "why": "a new laptop"}' "$DESK/api/v1/alerts/3fa94c1be0d27a58/disposition"

Whoever changes an alert says what they have seen of it: in If-Match its ETag, which is its version and how many events it had, or
both in the body. One that somebody else has changed since is left as it is; the answer is 409, and has the alert's row as it is
now. One that has only grown is changed, and a decision is over the events that were seen: it is open again for the others.
"""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Response

from fingerprint.core.alert import FingerprintError, NotFound
from fingerprint.core.case import ActionOutcome, AlertRevision, CaseAction, CaseNote, QueueRow
from fingerprint.web.api.case_changes import (
    AssignmentRequest,
    BulkChangeRequest,
    DecisionRequest,
    NoteRequest,
    ReopenRequest,
    SeenState,
)
from fingerprint.web.api.problems import ALERT_CONFLICT_RESPONSES, conflict_response
from fingerprint.web.api.queue_params import StorableText
from fingerprint.web.api.responses import alert_etag
from fingerprint.web.auth import Analyst
from fingerprint.web.dependencies import Dependencies, Deps, check_assignee

router = APIRouter(tags=["work"])
ETAG_PATTERN = r'^"([0-9]{1,9})-([0-9]{1,9})"$'  # version and events
IfMatch = Annotated[str | None, Header(pattern=ETAG_PATTERN, description='the ETag that was seen: `"3-9"`')]


@router.post("/alerts/bulk")
def change_alerts(body: BulkChangeRequest, caller: Analyst, deps: Deps) -> list[ActionOutcome]:
    """To each of them or not to it, in their order: an outcome says whether, and if not, why."""
    chosen = [each.to_chosen() for each in body.chosen]
    return deps.store.cases.change(chosen, check_assignee(body.change.to_change(), deps), caller.name)


@router.post("/alerts/{alert_id}/disposition", response_model=QueueRow, responses=ALERT_CONFLICT_RESPONSES)
def decide_alert(
    alert_id: StorableText,
    body: DecisionRequest,
    caller: Analyst,
    deps: Deps,
    response: Response,
    if_match: IfMatch = None,
) -> QueueRow | Response:
    """Close it with a decision; those before stay in its history."""
    return _apply_change(deps, _seen_alert(alert_id, body, if_match), body.to_change(), caller.name, response)


@router.post("/alerts/{alert_id}/assignee", response_model=QueueRow, responses=ALERT_CONFLICT_RESPONSES)
def assign_alert(
    alert_id: StorableText,
    body: AssignmentRequest,
    caller: Analyst,
    deps: Deps,
    response: Response,
    if_match: IfMatch = None,
) -> QueueRow | Response:
    """Give it to somebody with an account, or to nobody."""
    return _apply_change(deps, _seen_alert(alert_id, body, if_match), body.to_change(), caller.name, response)


@router.post("/alerts/{alert_id}/reopen", response_model=QueueRow, responses=ALERT_CONFLICT_RESPONSES)
def reopen_alert(
    alert_id: StorableText,
    body: ReopenRequest,
    caller: Analyst,
    deps: Deps,
    response: Response,
    if_match: IfMatch = None,
) -> QueueRow | Response:
    """Take the last decision back."""
    return _apply_change(deps, _seen_alert(alert_id, body, if_match), body.to_change(), caller.name, response)


@router.post("/alerts/{alert_id}/notes", status_code=201)
def add_note(alert_id: StorableText, body: NoteRequest, caller: Analyst, deps: Deps) -> CaseNote:
    """Add a note; it changes no version."""
    return deps.store.cases.add_note(deps.store.queue.row(alert_id).alert_id, body.text, caller.name)


def _seen_alert(alert_id: str, body: SeenState, if_match: str | None) -> AlertRevision:
    """What was seen of the alert. 428 where nobody says, 400 where both say and differ."""
    named = re.fullmatch(ETAG_PATTERN, if_match or "")
    version, events = (int(named[1]), int(named[2])) if named else (body.version, body.events)
    if version is None:
        raise HTTPException(428, "say which version you have seen: If-Match with its ETag, or `version`")
    if body.version not in (None, version) or body.events not in (None, events):
        raise FingerprintError("If-Match and the body say that different things were seen: send one of them")
    return AlertRevision(alert_id, version, events)


def _apply_change(
    deps: Dependencies, chosen: AlertRevision, change: CaseAction, by: str, response: Response
) -> QueueRow | Response:
    """The row after the change; 409 with the row of now where it was not done."""
    [outcome] = deps.store.cases.change([chosen], check_assignee(change, deps), by)
    if outcome.version < 0:
        raise NotFound(outcome.reason or f"there is no alert {chosen.alert_id!r}")
    row = deps.store.queue.row(chosen.alert_id)
    if not outcome.done:
        return conflict_response(outcome.reason, row)
    response.headers["ETag"] = alert_etag(row)
    return row
