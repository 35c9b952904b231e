"""Query parameters of the queue: filter, order and paging.

Example:
    >>> AlertListParams(service="iam", least_urgency=50).to_filter("maria")
    AlertFilter(status='open', least_urgency=50, most_urgency=100, principal='', service='iam', ...)
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, date, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from fingerprint.core.alert import Decision, Level
from fingerprint.core.alert_query import MAX_QUERY_LENGTH, resolve_me
from fingerprint.core.case import MAX_PAGE_SIZE, AlertFilter, CaseStatus, QueueOrder, Within
from fingerprint.core.sanitize import storable

MAX_REQUEST_TEXT_LENGTH = 2_000  # characters of a text parameter
MAX_DATABASE_INTEGER = 2**63 - 1  # the largest integer that every database can store
# Text with more than white space. Python, Rust and JavaScript differ on six characters, so the pattern names these.
NON_BLANK_PATTERN = r"[^\s\x1c-\x1f\x85\ufeff]"
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)


def _clamp_to_utc(moment: datetime) -> datetime:
    """Return the time in UTC, within the range of all databases."""
    return min(max(moment, EARLIEST), LATEST).astimezone(UTC)


# The alert store keeps a NUL or half a surrogate pair as U+FFFD, so a search looks for that.
StorableText = Annotated[str, Field(max_length=MAX_REQUEST_TEXT_LENGTH), AfterValidator(storable)]
ReasonText = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, pattern=NON_BLANK_PATTERN, max_length=MAX_REQUEST_TEXT_LENGTH
    ),
    AfterValidator(storable),
]
UtcDatetime = Annotated[AwareDatetime, AfterValidator(_clamp_to_utc)]
Urgency = Annotated[int, Field(ge=0, le=100)]
PageSize = Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)]
BeforeNumber = Annotated[
    int | None, Field(ge=1, le=MAX_DATABASE_INTEGER, description="the number of the last line seen")
]
PageCursor = Annotated[
    str | None, Field(max_length=MAX_REQUEST_TEXT_LENGTH, description="what the page before gave")
]


class RequestModel(BaseModel):
    """Parameters or a body; an unknown field is an error that names it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AlertFilterParams(RequestModel):
    """The filter of alerts. A missing field does not restrict."""

    status: CaseStatus = "open"
    least_urgency: Urgency = 0
    most_urgency: Urgency = 100
    principal: StorableText = ""
    service: StorableText = ""
    account: StorableText = ""
    tactic: StorableText = ""
    assignee: Annotated[
        StorableText | None, Field(description="the assignee; empty for alerts without one")
    ] = None
    decision: Decision | None = None
    level: Level | None = None
    q: Annotated[
        str,
        Field(
            max_length=MAX_QUERY_LENGTH,
            description="a query such as `action:StopLogging -principal:ci-*` (how-to: triage); 400 where it cannot be read",
        ),
    ] = ""
    within: Annotated[Within | None, Field(description="age of the alert's last event, at most")] = None
    since: Annotated[UtcDatetime | None, Field(description="of the alert's last event")] = None
    until: Annotated[UtcDatetime | None, Field(description="of the alert's first event")] = None
    day: Annotated[date | None, Field(description="of the alert's last event, in UTC")] = None
    suppressed: Annotated[
        bool, Field(description="those that a suppression hides, instead of those that none does")
    ] = False

    def to_filter(self, reader: str) -> AlertFilter:
        """Return the filter that the alert store takes, with the caller's name in place of `assignee:me`.

        Raise FingerprintError for a query that cannot be read: no schema can express that, so it is no validation error.
        """
        found = AlertFilter(**{field.name: getattr(self, field.name) for field in fields(AlertFilter)})
        return replace(found, q=resolve_me(found.q, reader)) if found.q else found


class AlertListParams(AlertFilterParams):
    """The filter, order and page size of alerts."""

    order: QueueOrder = "urgency"
    size: PageSize = 50
    following: PageCursor = None
