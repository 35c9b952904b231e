"""Incidents: list, read, decide, assign, note, split and join them.

Example:
    $ curl -X POST -H "Authorization: Bearer $TOKEN" -H 'If-Match: "4f0c9be1a7d2e683"' -H "Content-Type: application/json" \\
        -d '{"decision": "true_positive", "why": "a stolen key"}' "$FINGERPRINT_URL/api/v1/incidents/3fa94c1be0d27a58/disposition"

Every alert's id names its incident. A change names the revision that the caller read: If-Match with the incident's ETag, or
`revision` in the body. It changes all alerts of the incident that it concerns, or answers 409 and changes none: an alert of it
was changed, has grown, joined or left since. Nothing but a decision closes an alert, so an incident that grows is open again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Query, Response
from pydantic import Field

from fingerprint.core.case import MAX_PAGE_SIZE, CaseAction
from fingerprint.core.errors import FingerprintError
from fingerprint.core.incident import (
    Incident,
    IncidentEdit,
    IncidentFilter,
    IncidentOrder,
    IncidentPage,
    IncidentStatusFilter,
)
from fingerprint.web.api.cases import (
    AssignmentModel,
    DecisionModel,
    NoteRequest,
    ReopenModel,
    StatusModel,
    UndoModel,
)
from fingerprint.web.api.queue_params import (
    PageCursor,
    PageSize,
    RequestModel,
    StorableText,
    Urgency,
)
from fingerprint.web.api.responses import CONFLICT_RESPONSES, Problem, ResponseModel, ResponseSpecs
from fingerprint.web.auth import Analyst, Viewer
from fingerprint.web.dependencies import Dependencies, Deps, check_assignee

router = APIRouter(tags=["incidents"])
REVISION_PATTERN = r'^"([0-9a-f]{16})"$'
IfMatch = Annotated[str | None, Header(pattern=REVISION_PATTERN, description="the ETag that was seen")]
CHANGE_RESPONSES: ResponseSpecs = CONFLICT_RESPONSES | {
    428: {"model": Problem, "description": "the change does not name the revision that was read"}
}


class IncidentCounts(ResponseModel):
    """Counts of incidents of a filter; `open` is new or in progress."""

    open: int
    new: int
    in_progress: int
    closed: int


class IncidentFilterParams(RequestModel):
    """The filter of incidents. A missing field does not restrict."""

    status: IncidentStatusFilter = "open"
    assignee: Annotated[
        StorableText | None, Field(description="of one of its alerts; empty for incidents without one")
    ] = None
    principal: StorableText = ""
    least_urgency: Urgency = 0

    def to_filter(self) -> IncidentFilter:
        """Return the filter that the alert store takes."""
        return IncidentFilter(self.status, self.assignee, self.principal, self.least_urgency)


class IncidentListParams(IncidentFilterParams):
    """The filter, order and page size of incidents."""

    order: IncidentOrder = "urgency"
    size: PageSize = 50
    following: PageCursor = None


class SeenRevision(RequestModel):
    """The revision of the incident that the caller read."""

    revision: Annotated[str | None, Field(pattern=r"^[0-9a-f]{16}$")] = None


class IncidentDecision(DecisionModel, SeenRevision):
    """A decision on all alerts of an incident that are open or were decided otherwise."""


class IncidentAssignment(AssignmentModel, SeenRevision):
    """A new assignee of all alerts of an incident."""


class IncidentReopening(ReopenModel, SeenRevision):
    """An incident whose decided alerts are opened again."""


class IncidentUndo(UndoModel, SeenRevision):
    """Alerts of an incident whose last decision is taken back: those that the answer to the decision named."""

    alert_ids: Annotated[list[StorableText], Field(min_length=1, max_length=MAX_PAGE_SIZE)]


class IncidentStatusRequest(StatusModel, SeenRevision):
    """A new status of all open alerts of an incident."""


class ChangedIncident(ResponseModel):
    """An incident after a change, and how many of its alerts were changed, and which."""

    changed: int
    alert_ids: list[str]
    incident: Incident


class SplitRequest(RequestModel):
    """Alerts to split off an incident, into one of their own."""

    alert_ids: Annotated[list[StorableText], Field(min_length=1, max_length=MAX_PAGE_SIZE)]


class JoinRequest(RequestModel):
    """An incident to join with this one, named by the id of any of its alerts."""

    other: StorableText


@router.get("/incidents")
def list_incidents(
    params: Annotated[IncidentListParams, Query()], caller: Viewer, deps: Deps
) -> IncidentPage:
    """List incidents, the most urgent first unless `order` is given; those that suppressions hide whole are left out."""
    return deps.store.incidents.page(params.to_filter(), params.order, params.size, params.following)


@router.get("/incidents/counts")
def count_incidents(
    params: Annotated[IncidentFilterParams, Query()], caller: Viewer, deps: Deps
) -> IncidentCounts:
    """Count the incidents of a filter, whatever its status."""
    return IncidentCounts(**deps.store.incidents.counts(params.to_filter()))


@router.get("/incidents/{incident_id}")
def get_incident(incident_id: StorableText, caller: Viewer, deps: Deps, response: Response) -> Incident:
    """Return an incident with its alerts, the oldest first, and why each is there. If-Match accepts its ETag."""
    found = deps.store.incidents.get(incident_id)
    response.headers["ETag"] = f'"{found.row.revision}"'
    return found


@router.post("/incidents/{incident_id}/disposition", responses=CHANGE_RESPONSES)
def decide_incident(
    incident_id: StorableText,
    body: IncidentDecision,
    caller: Analyst,
    deps: Deps,
    response: Response,
    if_match: IfMatch = None,
) -> ChangedIncident:
    """Decide all alerts of an incident, or none; earlier decisions stay in their history."""
    return _apply(deps, incident_id, body, if_match, body.to_change(), caller.name, response)


@router.post("/incidents/{incident_id}/assignee", responses=CHANGE_RESPONSES)
def assign_incident(
    incident_id: StorableText,
    body: IncidentAssignment,
    caller: Analyst,
    deps: Deps,
    response: Response,
    if_match: IfMatch = None,
) -> ChangedIncident:
    """Assign all alerts of an incident to an account, or to none."""
    return _apply(deps, incident_id, body, if_match, body.to_change(), caller.name, response)


@router.post("/incidents/{incident_id}/reopen", responses=CHANGE_RESPONSES)
def reopen_incident(
    incident_id: StorableText,
    body: IncidentReopening,
    caller: Analyst,
    deps: Deps,
    response: Response,
    if_match: IfMatch = None,
) -> ChangedIncident:
    """Open the decided alerts of an incident again; their decisions stay in their history."""
    return _apply(deps, incident_id, body, if_match, body.to_change(), caller.name, response)


@router.post("/incidents/{incident_id}/undo", responses=CHANGE_RESPONSES)
def undo_incident_decision(
    incident_id: StorableText,
    body: IncidentUndo,
    caller: Analyst,
    deps: Deps,
    response: Response,
    if_match: IfMatch = None,
) -> ChangedIncident:
    """Revert the last decision on the alerts of an incident that are named: the one before is in force again, or none."""
    change, chosen = body.to_change(), body.alert_ids
    return _apply(deps, incident_id, body, if_match, change, caller.name, response, chosen)


@router.post("/incidents/{incident_id}/status", responses=CHANGE_RESPONSES)
def set_incident_status(
    incident_id: StorableText,
    body: IncidentStatusRequest,
    caller: Analyst,
    deps: Deps,
    response: Response,
    if_match: IfMatch = None,
) -> ChangedIncident:
    """Say that an incident is worked on, or that its open alerts are new again."""
    return _apply(deps, incident_id, body, if_match, body.to_change(), caller.name, response)


@router.post("/incidents/{incident_id}/notes", status_code=201)
def add_incident_note(
    incident_id: StorableText, body: NoteRequest, caller: Analyst, deps: Deps
) -> ChangedIncident:
    """Write a note on each alert of an incident; no version changes."""
    changed = deps.store.incidents.add_note(incident_id, body.text, caller.name)
    found = deps.store.incidents.get(incident_id)
    noted = [each.row.alert_id for each in found.alerts]
    return ChangedIncident(changed=changed, alert_ids=noted, incident=found)


@router.post("/incidents/{incident_id}/split", status_code=201, responses=CONFLICT_RESPONSES)
def split_incident(
    incident_id: StorableText, body: SplitRequest, caller: Analyst, deps: Deps
) -> IncidentEdit:
    """Split alerts off an incident. They stay apart whatever comes later, until it is undone or they are joined by hand."""
    return deps.store.incidents.split(incident_id, body.alert_ids, caller.name)


@router.post("/incidents/{incident_id}/join", status_code=201, responses=CONFLICT_RESPONSES)
def join_incidents(incident_id: StorableText, body: JoinRequest, caller: Analyst, deps: Deps) -> IncidentEdit:
    """Join another incident with this one. They stay together whatever comes later, until it is undone or split."""
    return deps.store.incidents.join(incident_id, body.other, caller.name)


@router.post("/incidents/edits/{edit_id}/undo", responses=CONFLICT_RESPONSES)
def undo_incident_edit(edit_id: StorableText, caller: Analyst, deps: Deps) -> IncidentEdit:
    """Undo a split or a join."""
    return deps.store.incidents.undo(edit_id, caller.name)


def _apply(
    deps: Dependencies,
    incident_id: str,
    body: SeenRevision,
    if_match: str | None,
    action: CaseAction,
    by: str,
    response: Response,
    alert_ids: Sequence[str] | None = None,
) -> ChangedIncident:
    named = re.fullmatch(REVISION_PATTERN, if_match or "")
    revision = named[1] if named else body.revision
    if revision is None:
        raise HTTPException(428, "name the revision you read: If-Match with its ETag, or `revision`")
    if body.revision not in (None, revision):
        raise FingerprintError("If-Match and the body name different revisions: send one of them")
    store = deps.store.incidents
    changed = store.change(incident_id, revision, check_assignee(action, deps), by, alert_ids)
    found = store.get(incident_id)
    response.headers["ETag"] = f'"{found.row.revision}"'
    ids = [each.alert_id for each in changed]
    return ChangedIncident(changed=len(ids), alert_ids=ids, incident=found)
