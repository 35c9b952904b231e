"""What a change of alerts may be, as bodies of requests: one alert's, or that of many at once.

Example:
    >>> OneDeciding.model_validate({"decision": "benign", "why": "a new laptop", "version": 0}).change()
    Decide(decision='benign', why='a new laptop', duplicate_of='')
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from fingerprint.core.alert import Decision
from fingerprint.core.case import (
    MAX_PAGE_SIZE,
    AlertRevision,
    AssignCase,
    CaseAction,
    ReopenCase,
    SetDisposition,
)
from fingerprint.core.sanitize import storable
from fingerprint.web.api.queue_params import NON_BLANK_PATTERN, RequestModel, StorableText

MAX_NOTE_LENGTH = 10_000  # characters

OptionalReason = Annotated[str, Field(max_length=2_000), AfterValidator(storable)]
SeenEvents = Annotated[int, Field(ge=0, le=2**31 - 1, description="so many were seen")]
SeenVersion = Annotated[int, Field(ge=0, le=2**31 - 1, description="the one that was seen")]


class DecisionModel(RequestModel):
    """What an analyst says of an alert."""

    decision: Decision
    why: OptionalReason = ""
    duplicate_of: Annotated[
        StorableText, Field(description="an alert's id, where the decision is `duplicate`")
    ] = ""

    def to_change(self) -> CaseAction:
        return SetDisposition(self.decision, self.why, self.duplicate_of)


class AssignmentModel(RequestModel):
    """Who has the alert from now on; empty: nobody."""

    to: Annotated[str, Field(max_length=64)]

    def to_change(self) -> CaseAction:
        return AssignCase(self.to)


class ReopenModel(RequestModel):
    """The last decision is taken back."""

    why: OptionalReason = ""

    def to_change(self) -> CaseAction:
        return ReopenCase(self.why)


class SeenState(RequestModel):
    """How the alert was when it was looked at. A decision is over so many `events`: one that has grown since stays open."""

    version: SeenVersion | None = None
    events: SeenEvents | None = None


class DecisionRequest(DecisionModel, SeenState): ...


class AssignmentRequest(AssignmentModel, SeenState): ...


class ReopenRequest(ReopenModel, SeenState): ...


class BulkDecision(DecisionModel):
    kind: Literal["decide"]


class BulkAssignment(AssignmentModel):
    kind: Literal["assign"]


class BulkReopen(ReopenModel):
    kind: Literal["reopen"]


class SelectedAlert(RequestModel):
    """An alert as it was seen."""

    alert_id: StorableText
    version: SeenVersion
    events: SeenEvents | None = None

    def to_chosen(self) -> AlertRevision:
        return AlertRevision(self.alert_id, self.version, self.events)


class BulkChangeRequest(RequestModel):
    """One change of many alerts."""

    chosen: Annotated[list[SelectedAlert], Field(min_length=1, max_length=MAX_PAGE_SIZE)]
    change: Annotated[BulkDecision | BulkAssignment | BulkReopen, Field(discriminator="kind")]


class NoteRequest(RequestModel):
    text: Annotated[
        str,
        StringConstraints(
            strip_whitespace=True, min_length=1, pattern=NON_BLANK_PATTERN, max_length=MAX_NOTE_LENGTH
        ),
        AfterValidator(storable),
    ]
