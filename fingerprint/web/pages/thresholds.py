"""Tuning: the threshold and the quorum, chosen as alerts a day on the own history, with what it would cost before it is applied.

Example:
    GET /tuning?alerts_per_day=5&quorum=2
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import BaseModel, Field

from fingerprint.analysis.threshold_service import ThresholdService
from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import QueueRow, ThresholdEstimate
from fingerprint.web import urls
from fingerprint.web.auth import Engineer, Viewer
from fingerprint.web.dependencies import Dependencies, Deps, require_thresholds
from fingerprint.web.layout import redirect, render_page
from fingerprint.web.threshold_chart import draw_threshold_chart

WIDE_THRESHOLD_CHART, NARROW_THRESHOLD_CHART = (
    (1000, 280),
    (350, 230),
)  # for a desk's and for a pocket's screen
MAX_HIDDEN_ALERTS = 20  # alerts that are named
MAX_WHY_LENGTH = 2000  # characters of a reason
router = APIRouter()


class ThresholdQuery(BaseModel):
    """What is asked: so many alerts a day, or a threshold; and a quorum, without one that of now."""

    alerts_per_day: Annotated[float | None, Field(gt=0, le=10_000)] = None
    threshold: Annotated[float | None, Field(ge=1, le=37)] = None
    quorum: Annotated[int | None, Field(ge=1, le=2)] = None


class ThresholdForm(BaseModel):
    """The form that applies it; without threshold and quorum what the settings say holds again."""

    threshold: float | None = None
    quorum: int | None = None
    why: Annotated[str, Field(max_length=MAX_WHY_LENGTH)] = ""


@router.get("/tuning")
def show_thresholds(
    query: Annotated[ThresholdQuery, Query()], request: Request, caller: Viewer, deps: Deps
) -> Response:
    """What events are held to, what others would show, and who chose what."""
    return _page(request, deps, query)


@router.post("/tuning")
def submit_threshold(
    choice: Annotated[ThresholdForm, Form()], request: Request, caller: Engineer, deps: Deps
) -> Response:
    """Hold events to it from now on."""
    try:
        require_thresholds(deps).set_override(choice.threshold, choice.quorum, choice.why, by=caller.name)
    except FingerprintError as error:
        wish = ThresholdQuery.model_construct(
            alerts_per_day=None, threshold=choice.threshold, quorum=choice.quorum
        )
        return _page(request, deps, wish, status=400, wrong=str(error), why=choice.why)
    return redirect("/tuning")


def _page(
    request: Request, deps: Dependencies, query: ThresholdQuery, status: int = 200, **values: Any
) -> Response:
    thresholds = require_thresholds(deps)
    now = thresholds.current()
    quorum = query.quorum or now.quorum
    wanted = _requested(thresholds, query, quorum, now)
    curve = thresholds.estimate_curve(quorum)
    marks = {"now": now.threshold} | ({"asked for": wanted.threshold} if wanted else {})
    return render_page(
        request,
        "desk/tuning.html",
        status,
        title="Tuning",
        now=now,
        wanted=wanted,
        asked=query,
        quorum=quorum,
        curve=curve,
        drawings=[
            draw_threshold_chart(curve, marks, *size)
            for size in (WIDE_THRESHOLD_CHART, NARROW_THRESHOLD_CHART)
        ],
        lost=_hidden_alerts(deps, thresholds, wanted) if wanted else [],
        chosen=thresholds.override_history(),
        links=urls,
        at=deps.clock.now(),
        **{"wrong": "", "why": "", **values},
    )


def _requested(
    thresholds: ThresholdService, query: ThresholdQuery, quorum: int, now: ThresholdEstimate
) -> ThresholdEstimate | None:
    """What is asked for, foreseen; None where nothing is asked."""
    if query.alerts_per_day is not None:
        return thresholds.estimate(thresholds.threshold_for_rate(query.alerts_per_day, quorum), quorum)
    if query.threshold is not None or query.quorum is not None:
        return thresholds.estimate(query.threshold or now.threshold, quorum)
    return None


def _hidden_alerts(
    deps: Dependencies, thresholds: ThresholdService, wanted: ThresholdEstimate
) -> list[QueueRow]:
    """Rows of alerts that it would not have shown; one that was purged since is passed over."""
    rows = []
    for alert_id in thresholds.hidden_alerts(wanted.threshold, wanted.quorum, MAX_HIDDEN_ALERTS):
        try:
            rows.append(deps.store.queue.row(alert_id))
        except FingerprintError:
            continue
    return rows
