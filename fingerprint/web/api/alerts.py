"""Read alerts: the queue by page, counted and grouped; one alert with its evidence.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$FINGERPRINT_URL/api/v1/alerts?least_urgency=50&service=iam&size=10"
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, field_validator

from fingerprint.core.alert import AlertEvent, CredentialIssue, Disposition, Gravity, Rarity, StepPhase
from fingerprint.core.case import (
    MAX_GROUP_FIELDS,
    AlertGroup,
    AuditEntry,
    CaseNote,
    EvidencePage,
    GroupField,
    QueuePage,
    QueueRow,
)
from fingerprint.core.incident import OtherRecord
from fingerprint.web.api.queue_params import (
    AlertFilterParams,
    AlertListParams,
    BeforeNumber,
    PageCursor,
    PageSize,
    StorableText,
)
from fingerprint.web.api.responses import FiniteFloat, ResponseModel, alert_etag
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Deps
from fingerprint.web.security_metrics import record_read
from fingerprint.web.session_origin import read_origin, with_opener

router = APIRouter(tags=["alerts"])
MAX_SIMILAR_ALERTS = 10


class AlertCounts(ResponseModel):
    """Numbers of alerts that a filter finds; of the open ones also by status, by severity and without an assignee."""

    open: int
    new: int
    in_progress: int
    closed: int
    suppressed: int
    critical: int
    high: int
    medium: int
    low: int
    unassigned: int


class DriverResponse(ResponseModel):
    """One feature that contributed to the loss: the value seen and the usual ones. `surprise` is in nats."""

    feature: str
    seen: str
    expected: str
    rarity: Rarity
    surprise: FiniteFloat
    events: int


class CurveResponse(ResponseModel):
    """Activity by interval, the oldest first, with the expected counts; `flagged` are the positions of intervals with a vote."""

    entity: str
    channel: str
    start: datetime
    interval_seconds: int
    counts: tuple[FiniteFloat, ...]
    expected: tuple[FiniteFloat, ...]
    flagged: tuple[int, ...]


class ImpactResponse(ResponseModel):
    """One action of the alert that can do harm, the gravest first; `technique` is MITRE ATT&CK's, empty for none.

    `new`: the principal never called it before. `new_place`: it came from a network that is new for the principal.
    `supporting`: the calls are supporting events, which raise the urgency only if they are grave or severe, new and succeeded.
    `in_bulk`: it reads data or secrets, and the principal never read as much. `dry_run`: the calls only asked whether they are
    permitted, and they are; `failed` counts them.
    """

    action: str
    gravity: Gravity
    effect: str
    tactic: str
    technique: str
    calls: int
    failed: int
    new: bool
    new_place: bool
    resources: tuple[str, ...]
    supporting: bool
    in_bulk: bool
    dry_run: bool


class StepResponse(ResponseModel):
    """One step of the response; `command` is for a POSIX shell, with names quoted; empty for a step that needs no command."""

    phase: StepPhase
    text: str
    command: str


class EventResponse(ResponseModel):
    """One event with its `scores`, which map each detector to its z, null for no opinion; `resource` is `type:name`.

    `flagged_by` are the detectors that voted for it. Each z was compared with one of the `thresholds`.
    `raw` is the record as AWS wrote it, JSON text; empty if it was not requested or is no longer kept.
    """

    event_id: str
    event_time: datetime
    entity: str
    service: str
    action: str
    region: str
    source_address: str
    user_agent: str
    error_code: str
    resource: str
    session: str
    scores: dict[str, FiniteFloat]
    flagged_by: tuple[str, ...]
    thresholds: dict[str, FiniteFloat]
    bank_version: str
    raw: str


class EventPage(ResponseModel):
    """A page of the `total` events of an alert, the oldest first."""

    events: tuple[EventResponse, ...]
    total: int
    following: str | None


class SharedSurprise(ResponseModel):
    """A surprise that `others`, a number of other principals, showed within a day."""

    feature: str
    seen: str
    others: int


class AlertDetail(ResponseModel):
    """One alert with everything that helps to decide on it. A change names `alert.version` and `alert.events`.

    `supporting_events` were unusual in the same hours and have no verdict; they have no records, and are not counted.
    `credential_chain` are the calls that led to its session, the nearest first; `other_records` the alerts that hold another
    account's record of a call that this alert holds.
    `records_removed`: when its raw records were removed; null while all are kept.
    """

    alert: QueueRow
    drivers: tuple[DriverResponse, ...]
    curve: CurveResponse | None
    impact_of: tuple[ImpactResponse, ...]
    next_steps: tuple[StepResponse, ...]
    credential_chain: tuple[CredentialIssue, ...]
    other_records: tuple[OtherRecord, ...]
    shared: tuple[SharedSurprise, ...]
    similar: tuple[QueueRow, ...]
    notes: tuple[CaseNote, ...]
    dispositions: tuple[Disposition, ...]
    evidence: EventPage
    supporting_events: tuple[EventResponse, ...]
    records_removed: datetime | None


class AlertGroupParams(AlertFilterParams):
    """The filter of alerts and the fields to group them by."""

    by: Annotated[
        list[GroupField],
        Field(min_length=1, max_length=MAX_GROUP_FIELDS, json_schema_extra={"uniqueItems": True}),
    ]
    limit: PageSize = 200

    @field_validator("by")
    @classmethod
    def check_distinct(cls, by: list[GroupField]) -> list[GroupField]:
        """Return the fields to group by. Raise ValueError where one comes twice."""
        if len(set(by)) < len(by):
            raise ValueError("a field groups once")
        return by


@router.get("/alerts")
def list_alerts(params: Annotated[AlertListParams, Query()], caller: Viewer, deps: Deps) -> QueuePage:
    """List the queue, the most urgent first unless `order` is given."""
    return deps.store.queue.page(params.to_filter(caller.name), params.order, params.size, params.following)


@router.get("/alerts/counts")
def count_alerts(params: Annotated[AlertFilterParams, Query()], caller: Viewer, deps: Deps) -> AlertCounts:
    """Count the alerts of a filter, whatever its status."""
    return AlertCounts(**deps.store.queue.counts(params.to_filter(caller.name)))


@router.get("/alerts/groups")
def group_alerts(
    params: Annotated[AlertGroupParams, Query()], caller: Viewer, deps: Deps
) -> list[AlertGroup]:
    """Group alerts, the group with the most urgent alert first. An alert of two services is in two groups."""
    return deps.store.queue.groups(params.to_filter(caller.name), params.by, params.limit)


@router.get("/alerts/{alert_id}")
def get_alert(alert_id: StorableText, caller: Viewer, deps: Deps, response: Response) -> AlertDetail:
    """Return one alert and its first 200 events without their records. If-Match accepts its ETag."""
    store = deps.store
    row = store.queue.row(alert_id)
    response.headers["ETag"] = alert_etag(row)
    origin = read_origin(store, alert_id)
    explained = with_opener(store.evidence.summary(alert_id), origin)
    return AlertDetail(
        alert=row,
        drivers=[DriverResponse.model_validate(each) for each in explained.drivers],
        curve=explained.curve and CurveResponse.model_validate(explained.curve),
        impact_of=[ImpactResponse.model_validate(each) for each in explained.impact_of],
        next_steps=[StepResponse.model_validate(each) for each in explained.next_steps],
        credential_chain=origin.chain,
        other_records=origin.other_records,
        shared=[
            SharedSurprise(feature=name, seen=seen, others=others)
            for name, seen, others in store.prevalence.of_alert(alert_id)
        ],
        similar=store.queue.similar(alert_id, MAX_SIMILAR_ALERTS),
        notes=store.cases.notes(alert_id),
        dispositions=store.cases.dispositions(alert_id),
        evidence=EventPage.model_validate(store.evidence.events(alert_id, raw=False)),
        supporting_events=[EventResponse.model_validate(each) for each in explained.supporting_events],
        records_removed=store.evidence.records_removed_at(alert_id),
    )


@router.get("/alerts/{alert_id}/events", response_model=EventPage)
def list_alert_events(
    alert_id: StorableText,
    request: Request,
    caller: Viewer,
    deps: Deps,
    size: PageSize = 200,
    following: PageCursor = None,
) -> EvidencePage:
    """List the events of an alert with their records by page, the oldest first."""
    found = deps.store.evidence.events(alert_id, size, following)
    record_read(request, alert_id, sum(bool(each.raw) for each in found.events))
    return found


@router.get("/alerts/{alert_id}/events/{event_id:path}", response_model=EventResponse)
def get_alert_event(
    alert_id: StorableText, event_id: StorableText, request: Request, caller: Viewer, deps: Deps
) -> AlertEvent:
    """Return one event with its record."""
    found = deps.store.evidence.event(alert_id, event_id)
    record_read(request, alert_id, bool(found.raw), event_id)
    return found


@router.get("/alerts/{alert_id}/history")
def list_alert_history(
    alert_id: StorableText,
    caller: Viewer,
    deps: Deps,
    size: PageSize = 200,
    before: BeforeNumber = None,
) -> list[AuditEntry]:
    """List what was done to an alert, the newest first; `before` is the number of the last entry seen."""
    return deps.store.audit.entries(deps.store.queue.row(alert_id).alert_id, size, before)
