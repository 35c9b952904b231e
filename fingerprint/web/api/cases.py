"""Actions on alerts: decide, undo, assign, reopen, note; on one, or on many at once. The audit log.

Example:
    $ curl -X POST -H "Authorization: Bearer $TOKEN" -H 'If-Match: "0-9"' -H "Content-Type: application/json" \\
        -d '{"decision": "benign", "why": "a new laptop"}' "$FINGERPRINT_URL/api/v1/alerts/3fa94c1be0d27a58/disposition"

A change names the state that the caller read: If-Match with the alert's ETag, which is its version and number of events, or both
in the body. An alert that another person changed since is left as it is; the answer is 409 with its current row. One that has
only grown is changed, and a decision covers the events that were read: the alert is open again for the others.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self, get_args

from fastapi import APIRouter, Header, HTTPException, Response
from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic.config import JsonDict

from fingerprint.core.alert import Decision
from fingerprint.core.case import (
    MAX_NOTE_LENGTH,
    MAX_PAGE_SIZE,
    MAX_REASON_LENGTH,
    REASONED_DECISIONS,
    ActionOutcome,
    AlertRevision,
    AssignCase,
    AuditEntry,
    CaseAction,
    CaseNote,
    QueueRow,
    ReopenCase,
    SetDisposition,
    SetStatus,
    UndoDecision,
    WorkStatus,
    lacks_reason,
)
from fingerprint.core.errors import FingerprintError, NotFound
from fingerprint.core.sanitize import storable
from fingerprint.web.api.queue_params import (
    NON_BLANK_PATTERN,
    BeforeNumber,
    PageSize,
    RequestModel,
    StorableText,
)
from fingerprint.web.api.responses import (
    ALERT_CONFLICT_RESPONSES,
    SEEN_STATE_RESPONSES,
    alert_etag,
    conflict_response,
)
from fingerprint.web.auth import Analyst, Engineer
from fingerprint.web.dependencies import Dependencies, Deps, check_assignee

OptionalReason = Annotated[str, Field(max_length=MAX_REASON_LENGTH), AfterValidator(storable)]
SeenEvents = Annotated[int, Field(ge=0, le=2**31 - 1, description="so many were seen")]
SeenVersion = Annotated[int, Field(ge=0, le=2**31 - 1, description="the one that was seen")]


# The same rule, for a reader of the schema: a decision that needs no reason, or a reason that is not blank.
_WITHOUT_REASON: JsonDict = {
    "properties": {"decision": {"enum": sorted(set(get_args(Decision)) - REASONED_DECISIONS)}}
}
_WITH_REASON: JsonDict = {
    "required": ["why"],
    "properties": {"why": {"type": "string", "pattern": NON_BLANK_PATTERN}},
}


class DecisionModel(RequestModel):
    """An analyst's decision on an alert. `benign` and `false_positive` need a reason: the detector learns from them."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [_WITHOUT_REASON, _WITH_REASON]})

    decision: Decision
    why: OptionalReason = ""
    duplicate_of: Annotated[
        StorableText, Field(description="an alert's id, where the decision is `duplicate`")
    ] = ""

    @model_validator(mode="after")
    def check_reason(self) -> Self:
        """Return the decision. Raise ValueError where it needs a reason and has none."""
        if lacks_reason(self.decision, self.why):
            raise ValueError(f"`why` is required for the decision {self.decision}")
        return self

    def to_change(self) -> CaseAction:
        """Return the change of the case."""
        return SetDisposition(self.decision, self.why, self.duplicate_of)


class AssignmentModel(RequestModel):
    """The new assignee of an alert; empty for none."""

    to: Annotated[str, Field(max_length=64)]

    def to_change(self) -> CaseAction:
        """Return the change of the case."""
        return AssignCase(self.to)


class ReopenModel(RequestModel):
    """A request to open a decided alert again."""

    why: OptionalReason = ""

    def to_change(self) -> CaseAction:
        """Return the change of the case."""
        return ReopenCase(self.why)


class UndoModel(RequestModel):
    """A request to take the last decision back, whatever it was."""

    why: OptionalReason = ""

    def to_change(self) -> CaseAction:
        """Return the change of the case."""
        return UndoDecision(self.why)


class StatusModel(RequestModel):
    """The status of open alerts."""

    status: WorkStatus

    def to_change(self) -> CaseAction:
        """Return the change of the case."""
        return SetStatus(self.status)


class SeenState(RequestModel):
    """The state of the alert that the caller read.

    A decision covers that many `events`: an alert that has grown since stays open.
    """

    version: SeenVersion | None = None
    events: SeenEvents | None = None


class DecisionRequest(DecisionModel, SeenState):
    """A decision on one alert."""


class AssignmentRequest(AssignmentModel, SeenState):
    """A new assignee of one alert."""


class ReopenRequest(ReopenModel, SeenState):
    """A closed alert to open again."""


class UndoRequest(UndoModel, SeenState):
    """An alert whose last decision is taken back."""


class StatusRequest(StatusModel, SeenState):
    """A new status of one open alert."""


class BulkDecision(DecisionModel):
    """A decision on several alerts."""

    kind: Literal["decide"]


class BulkAssignment(AssignmentModel):
    """A new assignee of several alerts."""

    kind: Literal["assign"]


class BulkReopen(ReopenModel):
    """Several closed alerts to open again."""

    kind: Literal["reopen"]


class BulkUndo(UndoModel):
    """Several alerts whose last decision is taken back."""

    kind: Literal["undo"]


class BulkStatus(StatusModel):
    """A new status of several open alerts."""

    kind: Literal["status"]


class SelectedAlert(RequestModel):
    """An alert at the version that the caller read."""

    alert_id: StorableText
    version: SeenVersion
    events: SeenEvents | None = None

    def to_revision(self) -> AlertRevision:
        """Return the alert and the state in which it was read."""
        return AlertRevision(self.alert_id, self.version, self.events)


class BulkChangeRequest(RequestModel):
    """One change of many alerts."""

    alerts: Annotated[list[SelectedAlert], Field(min_length=1, max_length=MAX_PAGE_SIZE)]
    change: Annotated[
        BulkDecision | BulkAssignment | BulkReopen | BulkUndo | BulkStatus, Field(discriminator="kind")
    ]


class NoteRequest(RequestModel):
    """The text of a new note."""

    text: Annotated[
        str,
        StringConstraints(
            strip_whitespace=True, min_length=1, pattern=NON_BLANK_PATTERN, max_length=MAX_NOTE_LENGTH
        ),
        AfterValidator(storable),
    ]


router = APIRouter(tags=["cases"])
ETAG_PATTERN = r'^"([0-9]{1,9})-([0-9]{1,9})"$'  # version and events
_NO_EVENTS = "name how many events you read, as `events`: a decision covers them and no later ones"
IfMatch = Annotated[str | None, Header(pattern=ETAG_PATTERN, description='the ETag that was seen: `"3-9"`')]


@router.post("/alerts/bulk", responses=SEEN_STATE_RESPONSES)
def change_alerts(body: BulkChangeRequest, caller: Analyst, deps: Deps) -> list[ActionOutcome]:
    """Change each alert or leave it, in their order: an outcome reports whether it was changed, and if not, why."""
    revisions = [each.to_revision() for each in body.alerts]
    if isinstance(body.change, BulkDecision) and any(each.events is None for each in revisions):
        raise HTTPException(428, f"for each alert, {_NO_EVENTS}")
    return deps.store.cases.change(revisions, check_assignee(body.change.to_change(), deps), caller.name)


@router.post("/alerts/{alert_id}/disposition", response_model=QueueRow, responses=ALERT_CONFLICT_RESPONSES)
def decide_alert(
    alert_id: StorableText,
    body: DecisionRequest,
    caller: Analyst,
    deps: Deps,
    response: Response,
    if_match: IfMatch = None,
) -> QueueRow | Response:
    """Close an alert with a decision; earlier decisions stay in its history."""
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
    """Assign an alert to an account, or to none."""
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
    """Open a decided alert again, whatever was decided before; its decisions stay in its history."""
    return _apply_change(deps, _seen_alert(alert_id, body, if_match), body.to_change(), caller.name, response)


@router.post("/alerts/{alert_id}/undo", response_model=QueueRow, responses=ALERT_CONFLICT_RESPONSES)
def undo_decision(
    alert_id: StorableText,
    body: UndoRequest,
    caller: Analyst,
    deps: Deps,
    response: Response,
    if_match: IfMatch = None,
) -> QueueRow | Response:
    """Revert the last decision: the one before is in force again, or none. The audit keeps both."""
    return _apply_change(deps, _seen_alert(alert_id, body, if_match), body.to_change(), caller.name, response)


@router.post("/alerts/{alert_id}/status", response_model=QueueRow, responses=ALERT_CONFLICT_RESPONSES)
def set_alert_status(
    alert_id: StorableText,
    body: StatusRequest,
    caller: Analyst,
    deps: Deps,
    response: Response,
    if_match: IfMatch = None,
) -> QueueRow | Response:
    """Say that an open alert is worked on, or that it is new again. Assigning it or writing a note says so, too."""
    return _apply_change(deps, _seen_alert(alert_id, body, if_match), body.to_change(), caller.name, response)


@router.post("/alerts/{alert_id}/notes", status_code=201)
def add_note(alert_id: StorableText, body: NoteRequest, caller: Analyst, deps: Deps) -> CaseNote:
    """Add a note; the version does not change."""
    return deps.store.cases.add_note(deps.store.queue.row(alert_id).alert_id, body.text, caller.name)


def _seen_alert(alert_id: str, body: SeenState, if_match: str | None) -> AlertRevision:
    """Return the state that the caller read. Answers 428 where none is named, 400 where header and body differ.

    A decision needs the events, too: without them it would close those that no one saw.
    """
    named = re.fullmatch(ETAG_PATTERN, if_match or "")
    version, events = (int(named[1]), int(named[2])) if named else (body.version, body.events)
    if version is None:
        raise HTTPException(428, "name the version you read: If-Match with its ETag, or `version`")
    if body.version not in (None, version) or body.events not in (None, events):
        raise FingerprintError("If-Match and the body say that different things were seen: send one of them")
    if isinstance(body, DecisionRequest) and events is None:
        raise HTTPException(428, _NO_EVENTS)
    return AlertRevision(alert_id, version, events)


def _apply_change(
    deps: Dependencies, revision: AlertRevision, change: CaseAction, by: str, response: Response
) -> QueueRow | Response:
    """Return the row after the change; 409 with the current row where it was not applied."""
    [outcome] = deps.store.cases.change([revision], check_assignee(change, deps), by)
    if outcome.version < 0:
        raise NotFound(outcome.reason or f"there is no alert {revision.alert_id!r}")
    row = deps.store.queue.row(revision.alert_id)
    if not outcome.done:
        return conflict_response(outcome.reason, row)
    response.headers["ETag"] = alert_etag(row)
    return row


audit_router = APIRouter(tags=["audit"])


@audit_router.get("/audit")
def list_audit_entries(
    caller: Engineer, deps: Deps, target: StorableText = "", size: PageSize = 200, before: BeforeNumber = None
) -> list[AuditEntry]:
    """List audit entries, the newest first, of one target (an alert's id, a suppression's, an account's name) or of all."""
    return deps.store.audit.entries(target, size, before)
