"""Alerts to read: the queue by page, counted and grouped; one alert with all that explains it.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$DESK/api/v1/alerts?least_urgency=50&service=iam&size=10"
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, field_validator

from fingerprint.core.alert import AlertEvent, Disposition, Rarity
from fingerprint.core.case import MOST_GROUPED, By, Entry, Evidence, Group, Note, Page, Row
from fingerprint.web.api.queue_params import Before, Following, Listing, Size, Wanted, Which
from fingerprint.web.api.responses import Figure, Said, etag
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import TheDoors
from fingerprint.web.security_metrics import record_read

router = APIRouter(tags=["alerts"])
MOST_SIMILAR = 10


class Counts(Said):
    """How many alerts of a filter; of the open ones, how many of each urgency, and how many nobody has."""

    open: int
    closed: int
    suppressed: int
    critical: int
    high: int
    medium: int
    low: int
    unassigned: int


class Driver(Said):
    """One feature that drove the loss: what was seen beside what is usual. `surprise` is in nats."""

    feature: str
    seen: str
    expected: str
    rarity: Rarity
    surprise: Figure
    events: int


class Curve(Said):
    """Activity by interval, the oldest first, beside what was expected; `flagged` are the places of those that had a vote."""

    entity: str
    channel: str
    start: datetime
    interval_seconds: int
    counts: tuple[Figure, ...]
    expected: tuple[Figure, ...]
    flagged: tuple[int, ...]


class Event(Said):
    """One event. `raw` is the record as AWS wrote it, JSON text; empty where it was not asked for, or is no longer kept."""

    event_id: str
    event_time: datetime
    entity: str
    service: str
    action: str
    region: str
    source_address: str
    user_agent: str
    error_code: str
    session: str
    autoencoder_z: Figure
    spectral_z: Figure
    bank_version: str
    raw: str


class Events(Said):
    """Some of the `total` events of an alert, the oldest first."""

    events: tuple[Event, ...]
    total: int
    following: str | None


class Shared(Said):
    """A surprise that `others`, so many other principals, show within a day of it."""

    feature: str
    seen: str
    others: int


class Explained(Said):
    """One alert and all that helps to decide on it. `alert.version` and `alert.events` are what a change names.

    `records_removed`: when raw records of it were removed; null while all are there."""

    alert: Row
    drivers: tuple[Driver, ...]
    curve: Curve | None
    next_steps: tuple[str, ...]
    shared: tuple[Shared, ...]
    similar: tuple[Row, ...]
    notes: tuple[Note, ...]
    dispositions: tuple[Disposition, ...]
    evidence: Events
    records_removed: datetime | None


class Grouping(Which):
    """Which alerts, grouped by what."""

    by: Annotated[
        list[By], Field(min_length=1, max_length=MOST_GROUPED, json_schema_extra={"uniqueItems": True})
    ]
    limit: Size = 200

    @field_validator("by")
    @classmethod
    def once(cls, by: list[By]) -> list[By]:
        if len(set(by)) < len(by):
            raise ValueError("a field groups once")
        return by


@router.get("/alerts")
def alerts(asked: Annotated[Listing, Query()], caller: Viewer, doors: TheDoors) -> Page:
    """The queue, the most urgent first unless another order is asked for."""
    return doors.desk.page(asked.filter(), asked.order, asked.size, asked.following)


@router.get("/alerts/counts")
def counts(asked: Annotated[Which, Query()], caller: Viewer, doors: TheDoors) -> Counts:
    """How many there are of this filter, whatever its status."""
    return Counts(**doors.desk.counts(asked.filter()))


@router.get("/alerts/groups")
def groups(asked: Annotated[Grouping, Query()], caller: Viewer, doors: TheDoors) -> list[Group]:
    """The group with the most urgent alert first. An alert of two services is in two groups."""
    return doors.desk.groups(asked.filter(), asked.by, asked.limit)


@router.get("/alerts/{alert_id}")
def alert(alert_id: Wanted, caller: Viewer, doors: TheDoors, response: Response) -> Explained:
    """One alert, its first 200 events without their records. Its ETag is what If-Match takes back."""
    desk = doors.desk
    row = desk.row(alert_id)
    response.headers["ETag"] = etag(row)
    explained = desk.explained(alert_id)
    return Explained(
        alert=row,
        drivers=[Driver.model_validate(each) for each in explained.drivers],
        curve=explained.curve and Curve.model_validate(explained.curve),
        next_steps=explained.next_steps,
        shared=[
            Shared(feature=name, seen=seen, others=others) for name, seen, others in desk.shared_by(alert_id)
        ],
        similar=desk.similar(alert_id, MOST_SIMILAR),
        notes=desk.notes(alert_id),
        dispositions=desk.dispositions(alert_id),
        evidence=Events.model_validate(desk.evidence(alert_id, raw=False)),
        records_removed=desk.records_removed(alert_id),
    )


@router.get("/alerts/{alert_id}/events", response_model=Events)
def events(
    alert_id: Wanted,
    request: Request,
    caller: Viewer,
    doors: TheDoors,
    size: Size = 200,
    following: Following = None,
) -> Evidence:
    """Its events with their records, by page, the oldest first."""
    found = doors.desk.evidence(alert_id, size, following)
    record_read(request, alert_id, sum(bool(each.raw) for each in found.events))
    return found


@router.get("/alerts/{alert_id}/events/{event_id:path}", response_model=Event)
def event(
    alert_id: Wanted, event_id: Wanted, request: Request, caller: Viewer, doors: TheDoors
) -> AlertEvent:
    """One event with its record."""
    found = doors.desk.event(alert_id, event_id)
    record_read(request, alert_id, bool(found.raw), event_id)
    return found


@router.get("/alerts/{alert_id}/history")
def history(
    alert_id: Wanted,
    caller: Viewer,
    doors: TheDoors,
    size: Size = 200,
    before: Before = None,
) -> list[Entry]:
    """What people did to it, the newest first; `before` is the number of the last line seen."""
    return doors.desk.history(doors.desk.row(alert_id).alert_id, size, before)
