"""Tuning: the threshold and the quorum, chosen as alerts a day on the own history, with what it would cost before it is applied.

Example:
    GET /tuning?alerts_per_day=5&quorum=2
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import BaseModel, Field

from fingerprint.analysis.threshold_service import Thresholds
from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import Foreseen, Row
from fingerprint.web import urls
from fingerprint.web.auth import Engineer, Viewer
from fingerprint.web.dependencies import Doors, TheDoors, thresholds_of
from fingerprint.web.layout import go, show
from fingerprint.web.threshold_chart import drawn

WIDE, NARROW = (1000, 280), (350, 230)  # for a desk's and for a pocket's screen
LOST = 20  # alerts that are named
LONGEST = 2000  # characters of a reason
router = APIRouter()


class Wish(BaseModel):
    """What is asked: so many alerts a day, or a threshold; and a quorum, without one that of now."""

    alerts_per_day: Annotated[float | None, Field(gt=0, le=10_000)] = None
    threshold: Annotated[float | None, Field(ge=1, le=37)] = None
    quorum: Annotated[int | None, Field(ge=1, le=2)] = None


class Choice(BaseModel):
    """The form that applies it; without threshold and quorum what the settings say holds again."""

    threshold: float | None = None
    quorum: int | None = None
    why: Annotated[str, Field(max_length=LONGEST)] = ""


@router.get("/tuning")
def tuning(wish: Annotated[Wish, Query()], request: Request, caller: Viewer, doors: TheDoors) -> Response:
    """What events are held to, what others would show, and who chose what."""
    return _page(request, doors, wish)


@router.post("/tuning")
def apply(choice: Annotated[Choice, Form()], request: Request, caller: Engineer, doors: TheDoors) -> Response:
    """Hold events to it from now on."""
    try:
        thresholds_of(doors).choose(choice.threshold, choice.quorum, choice.why, by=caller.name)
    except FingerprintError as error:
        wish = Wish.model_construct(alerts_per_day=None, threshold=choice.threshold, quorum=choice.quorum)
        return _page(request, doors, wish, status=400, wrong=str(error), why=choice.why)
    return go("/tuning")


def _page(request: Request, doors: Doors, wish: Wish, status: int = 200, **values: Any) -> Response:
    thresholds = thresholds_of(doors)
    now = thresholds.holds()
    quorum = wish.quorum or now.quorum
    wanted = _wanted(thresholds, wish, quorum, now)
    curve = thresholds.curve(quorum)
    marks = {"now": now.threshold} | ({"asked for": wanted.threshold} if wanted else {})
    return show(
        request,
        "desk/tuning.html",
        status,
        title="Tuning",
        now=now,
        wanted=wanted,
        asked=wish,
        quorum=quorum,
        curve=curve,
        drawings=[drawn(curve, marks, *size) for size in (WIDE, NARROW)],
        lost=_lost(doors, thresholds, wanted) if wanted else [],
        chosen=thresholds.chosen(),
        links=urls,
        at=doors.clock.now(),
        **{"wrong": "", "why": "", **values},
    )


def _wanted(thresholds: Thresholds, wish: Wish, quorum: int, now: Foreseen) -> Foreseen | None:
    """What is asked for, foreseen; None where nothing is asked."""
    if wish.alerts_per_day is not None:
        return thresholds.foreseen(thresholds.wanted(wish.alerts_per_day, quorum), quorum)
    if wish.threshold is not None or wish.quorum is not None:
        return thresholds.foreseen(wish.threshold or now.threshold, quorum)
    return None


def _lost(doors: Doors, thresholds: Thresholds, wanted: Foreseen) -> list[Row]:
    """Rows of alerts that it would not have shown; one that was purged since is passed over."""
    rows = []
    for alert_id in thresholds.lost(wanted.threshold, wanted.quorum, LOST):
        try:
            rows.append(doors.desk.row(alert_id))
        except FingerprintError:
            continue
    return rows
