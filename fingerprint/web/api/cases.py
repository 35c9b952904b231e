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

from fingerprint.core.alert import FingerprintError, NotThere
from fingerprint.core.case import Change, Chosen, Note, Outcome, Row
from fingerprint.web.api.case_changes import Bulk, Noting, OneAssigning, OneDeciding, OneReopening, Seen
from fingerprint.web.api.problems import OVERTAKEN, overtaken
from fingerprint.web.api.queue_params import Wanted
from fingerprint.web.api.responses import etag
from fingerprint.web.auth import Analyst
from fingerprint.web.dependencies import Doors, TheDoors, checked

router = APIRouter(tags=["work"])
ETAG = r'^"([0-9]{1,9})-([0-9]{1,9})"$'  # version and events
IfMatch = Annotated[str | None, Header(pattern=ETAG, description='the ETag that was seen: `"3-9"`')]


@router.post("/alerts/bulk")
def bulk(asked: Bulk, caller: Analyst, doors: TheDoors) -> list[Outcome]:
    """To each of them or not to it, in their order: an outcome says whether, and if not, why."""
    chosen = [each.chosen() for each in asked.chosen]
    return doors.desk.change(chosen, checked(asked.change.change(), doors), caller.name)


@router.post("/alerts/{alert_id}/disposition", response_model=Row, responses=OVERTAKEN)
def decide(
    alert_id: Wanted,
    asked: OneDeciding,
    caller: Analyst,
    doors: TheDoors,
    response: Response,
    if_match: IfMatch = None,
) -> Row | Response:
    """Close it with a decision; those before stay in its history."""
    return _changed(doors, _seen(alert_id, asked, if_match), asked.change(), caller.name, response)


@router.post("/alerts/{alert_id}/assignee", response_model=Row, responses=OVERTAKEN)
def assign(
    alert_id: Wanted,
    asked: OneAssigning,
    caller: Analyst,
    doors: TheDoors,
    response: Response,
    if_match: IfMatch = None,
) -> Row | Response:
    """Give it to somebody with an account, or to nobody."""
    return _changed(doors, _seen(alert_id, asked, if_match), asked.change(), caller.name, response)


@router.post("/alerts/{alert_id}/reopen", response_model=Row, responses=OVERTAKEN)
def reopen(
    alert_id: Wanted,
    asked: OneReopening,
    caller: Analyst,
    doors: TheDoors,
    response: Response,
    if_match: IfMatch = None,
) -> Row | Response:
    """Take the last decision back."""
    return _changed(doors, _seen(alert_id, asked, if_match), asked.change(), caller.name, response)


@router.post("/alerts/{alert_id}/notes", status_code=201)
def note(alert_id: Wanted, asked: Noting, caller: Analyst, doors: TheDoors) -> Note:
    """Add a note; it changes no version."""
    return doors.desk.note(doors.desk.row(alert_id).alert_id, asked.text, caller.name)


def _seen(alert_id: str, asked: Seen, if_match: str | None) -> Chosen:
    """What was seen of the alert. 428 where nobody says, 400 where both say and differ."""
    named = re.fullmatch(ETAG, if_match or "")
    version, events = (int(named[1]), int(named[2])) if named else (asked.version, asked.events)
    if version is None:
        raise HTTPException(428, "say which version you have seen: If-Match with its ETag, or `version`")
    if asked.version not in (None, version) or asked.events not in (None, events):
        raise FingerprintError("If-Match and the body say that different things were seen: send one of them")
    return Chosen(alert_id, version, events)


def _changed(doors: Doors, chosen: Chosen, change: Change, by: str, response: Response) -> Row | Response:
    """The row after the change; 409 with the row of now where it was not done."""
    [outcome] = doors.desk.change([chosen], checked(change, doors), by)
    if outcome.version < 0:
        raise NotThere(outcome.reason or f"there is no alert {chosen.alert_id!r}")
    row = doors.desk.row(chosen.alert_id)
    if not outcome.done:
        return overtaken(outcome.reason, row)
    response.headers["ETag"] = etag(row)
    return row
