"""Principals: what is usual of one, how strange each of its days was, its alerts; and single votes.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$DESK/api/v1/entities/123456789012:user/ana"
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from fingerprint.analysis.principal_profile import VOTES_SHOWN, Card, Day, card_of, days_of
from fingerprint.core.alert import FingerprintError, Level
from fingerprint.core.case import Filter, Row, Suppression
from fingerprint.web.api.queue_params import Asked, Moment, Wanted
from fingerprint.web.api.responses import Figure, Said
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Doors, TheDoors

router = APIRouter(tags=["entities"])
DAYS = 90  # of single votes, back from the newest on the desk
MOST_VOTES = 10_000  # of one answer
Shown = Annotated[
    Wanted | None, Query(description="the key of the fingerprint whose usual values are on the card")
]


class Entity(Said):
    """A principal. `card` is what the served bank knows of it; without one, `no_card` says why. `days` has its single votes of
    the last 90 days that anybody had any; `alerts` are the newest 100 of `alerts_in_all`, open or closed, but for those that
    are suppressed."""

    principal: str
    card: Card | None
    no_card: str
    days: tuple[Day, ...]
    alerts: tuple[Row, ...]
    alerts_in_all: int
    suppressions: tuple[Suppression, ...]


class Vote(Said):
    """One detector's opinion of one event, or of one interval: z (high is strange) against its threshold; `alone` where no other
    detector had one."""

    event_id: str
    event_time: datetime
    principal: str
    entity: str
    detector: str
    z: Figure
    threshold: Figure
    vote: bool
    level: Level
    bank_version: str
    alone: bool


class Votes(Said):
    """Single votes, the oldest first. With `more`, ask again from the last one's time on."""

    votes: tuple[Vote, ...]
    more: bool


class Voted(Asked):
    principal: Wanted | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_VOTES)] = 1_000


@router.get("/entities")
def named(principal: Wanted, caller: Viewer, doors: TheDoors, fingerprint: Shown = None) -> Entity:
    """A principal whose name makes no path (it may hold anything)."""
    return entity(principal, caller, doors, fingerprint)


@router.get("/entities/{principal:path}")
def entity(principal: Wanted, caller: Viewer, doors: TheDoors, fingerprint: Shown = None) -> Entity:
    """A principal: its card, its days, its alerts, and the suppressions that name it."""
    which = Filter(status="all", principal=principal)
    page = doors.desk.page(which, "newest", 100)
    card, why = _card(doors, principal, fingerprint)
    in_force = doors.desk.suppressions()
    return Entity(
        principal=principal,
        card=card,
        no_card=why,
        days=_days(doors, principal),
        alerts=page.rows,
        alerts_in_all=page.total,
        suppressions=[each for each in in_force if each.match.principal == principal],
    )


@router.get("/votes")
def votes(asked: Annotated[Voted, Query()], caller: Viewer, doors: TheDoors) -> Votes:
    """Single votes, of one principal or of all: those that are strange enough to be kept."""
    found = doors.desk.votes(asked.principal, asked.since, asked.limit + 1)
    if asked.until is not None:
        found = found[found["event_time"] < asked.until]
    kept = found.head(asked.limit).to_dict("records")
    return Votes(votes=kept, more=len(found) > asked.limit)


def _card(doors: Doors, principal: str, shown: str | None) -> tuple[Card | None, str]:
    """The card, or why there is none."""
    if doors.banks is None:
        return None, "no bank is to be seen from here: `fingerprint serve --bank FOLDER`"
    try:
        return card_of(doors.banks.served(), principal, doors.settings, shown), ""
    except FingerprintError as error:
        return None, str(error)


def _days(doors: Doors, principal: str) -> list[Day]:
    newest = doors.desk.newest_vote()
    since = newest and newest - timedelta(days=DAYS)
    return days_of(doors.desk.votes(principal, since, VOTES_SHOWN, newest=True)) if newest else []
