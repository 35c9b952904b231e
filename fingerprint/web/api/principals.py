"""Principals: their profile, anomaly by day and alerts; and the votes of single detectors.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$FINGERPRINT_URL/api/v1/entities/123456789012:user/ana"
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from fingerprint.analysis.principal_activity import PrincipalActivity
from fingerprint.analysis.principal_profile import (
    MAX_CHARTED_VOTES,
    DailyVotes,
    PrincipalProfile,
    daily_votes,
)
from fingerprint.core.alert import Level
from fingerprint.core.case import AlertFilter, QueueRow, Suppression
from fingerprint.web.api.queue_params import PageCursor, RequestModel, StorableText, UtcDatetime
from fingerprint.web.api.responses import FiniteFloat, ResponseModel
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.principal_facts import load_activity, load_profile

router = APIRouter(tags=["entities"])
VOTE_DAYS = 90  # of single votes, back from the newest in the alert store
MAX_LISTED_VOTES = 10_000  # of one answer
FingerprintKey = Annotated[
    StorableText | None, Query(description="the key of the fingerprint whose usual values are shown")
]


class PrincipalResponse(ResponseModel):
    """A principal. `profile` is the one in the served bank; without one, `profile_error` is the reason.

    `days` summarises its votes of the last 90 days with any; `alerts` are the newest 100 of `alerts_in_all`, open or closed, but
    not suppressed. `activity` is what the newest 2,000 events of its alerts show, of `events_in_all`.
    """

    principal: str
    profile: PrincipalProfile | None
    profile_error: str
    days: tuple[DailyVotes, ...]
    alerts: tuple[QueueRow, ...]
    alerts_in_all: int
    suppressions: tuple[Suppression, ...]
    activity: PrincipalActivity
    events_in_all: int


class VoteResponse(ResponseModel):
    """A detector's vote on one event or interval: z (high is unusual) against its threshold.

    `alone` marks a vote without one of another detector. `action` is what the event called (`s3:GetObject`), empty for an
    interval, and for votes that were stored before actions were. `reach` is the highest threshold of alerts at which the event
    opens an alert: null below 2, where a verdict lacks votes, and for a detector whose z opens no alert.
    """

    event_id: str
    event_time: datetime
    principal: str
    entity: str
    detector: str
    z: FiniteFloat
    threshold: FiniteFloat
    vote: bool
    level: Level
    bank_version: str
    alone: bool
    action: str
    reach: FiniteFloat


class VotePage(ResponseModel):
    """A page of votes, the oldest first. `following` asks for the next ones, null at the end."""

    votes: tuple[VoteResponse, ...]
    following: str | None


class VoteParams(RequestModel):
    """The parameters of a search for votes."""

    principal: StorableText | None = None
    since: UtcDatetime | None = None
    until: UtcDatetime | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED_VOTES)] = 1_000
    following: PageCursor = None


@router.get("/entities")
def get_principal_by_name(
    principal: StorableText, caller: Viewer, deps: Deps, fingerprint: FingerprintKey = None
) -> PrincipalResponse:
    """Return the principal of an alert, for names that cannot be part of a path."""
    return get_principal(principal, caller, deps, fingerprint)


@router.get("/entities/{principal:path}")
def get_principal(
    principal: StorableText, caller: Viewer, deps: Deps, fingerprint: FingerprintKey = None
) -> PrincipalResponse:
    """Return a principal: its profile, its days, its alerts, and the suppressions that name it."""
    which = AlertFilter(status="all", principal=principal)
    page = deps.store.queue.page(which, "newest", 100)
    profile, profile_error = load_profile(deps, principal, fingerprint)
    found, activity = load_activity(deps.store, principal)
    in_force = deps.store.suppressions.list_all()
    return PrincipalResponse(
        principal=principal,
        profile=profile,
        profile_error=profile_error,
        days=_daily_votes(deps, principal),
        alerts=page.rows,
        alerts_in_all=page.total,
        suppressions=[each for each in in_force if each.match.principal == principal],
        activity=activity,
        events_in_all=found.total,
    )


@router.get("/votes")
def list_votes(params: Annotated[VoteParams, Query()], caller: Viewer, deps: Deps) -> VotePage:
    """List the stored votes of single detectors, of one principal or of all."""
    found, following = deps.store.votes.page(
        params.principal, params.since, params.until, params.limit, params.following
    )
    return VotePage(votes=found.to_dict("records"), following=following)


def _daily_votes(deps: Dependencies, principal: str) -> list[DailyVotes]:
    newest = deps.store.votes.newest_time()
    since = newest and newest - timedelta(days=VOTE_DAYS)
    return (
        daily_votes(deps.store.votes.read(principal, since, MAX_CHARTED_VOTES, newest=True)) if newest else []
    )
