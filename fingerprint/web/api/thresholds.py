"""Thresholds: what events are held to, what others would show, and a choice.

Example:
    $ curl -X POST -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
        -d '{"alerts_per_day": 5, "quorum": 2}' "$DESK/api/v1/thresholds/preview"
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from fingerprint.core.case import ThresholdEstimate, ThresholdOverride
from fingerprint.web.api.queue_params import ReasonText, RequestModel
from fingerprint.web.auth import Engineer, Viewer
from fingerprint.web.dependencies import Deps, require_thresholds

router = APIRouter(tags=["thresholds"])
Threshold = Annotated[float, Field(ge=1, le=37, allow_inf_nan=False, description="a z of the autoencoder")]
Quorum = Literal[1, 2]


class ThresholdsResponse(RequestModel):
    """What events are held to now, and who chose what, the newest first."""

    now: ThresholdEstimate
    chosen: list[ThresholdOverride]


class ThresholdPreviewRequest(RequestModel):
    """So many alerts a day at most, or a threshold."""

    alerts_per_day: Annotated[float | None, Field(gt=0, le=10_000, allow_inf_nan=False)] = None
    threshold: Threshold | None = None
    quorum: Quorum = 2


class ThresholdRequest(RequestModel):
    """Without threshold and quorum what the settings say holds again."""

    threshold: Threshold | None = None
    quorum: Quorum | None = None
    why: ReasonText


@router.get("/thresholds")
def get_thresholds(caller: Viewer, deps: Deps) -> ThresholdsResponse:
    """What events are held to."""
    found = require_thresholds(deps)
    return ThresholdsResponse(now=found.current(), chosen=list(found.override_history()))


@router.post("/thresholds/preview")
def preview_threshold(body: ThresholdPreviewRequest, caller: Viewer, deps: Deps) -> ThresholdEstimate:
    """What it would have shown on the last two weeks of votes on this desk; nothing is changed."""
    found = require_thresholds(deps)
    if body.alerts_per_day is not None:
        return found.estimate(found.threshold_for_rate(body.alerts_per_day, body.quorum), body.quorum)
    return found.estimate(body.threshold or found.current().threshold, body.quorum)


@router.post("/thresholds", status_code=201)
def set_threshold(body: ThresholdRequest, caller: Engineer, deps: Deps) -> ThresholdOverride:
    """Hold events to it from now on."""
    return require_thresholds(deps).set_override(body.threshold, body.quorum, body.why, by=caller.name)
