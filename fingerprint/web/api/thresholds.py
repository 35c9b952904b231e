"""Thresholds: the ones in force, estimates for others, and overrides.

Example:
    $ curl -X POST -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
        -d '{"alerts_per_day": 5, "quorum": 2}' "$FINGERPRINT_URL/api/v1/thresholds/preview"
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from fingerprint.core.case import (
    MAX_QUORUM,
    MAX_THRESHOLD,
    MIN_THRESHOLD,
    ThresholdEstimate,
    ThresholdOverride,
)
from fingerprint.web.api.queue_params import ReasonText, RequestModel
from fingerprint.web.auth import Engineer, Viewer
from fingerprint.web.dependencies import Deps, require_thresholds

router = APIRouter(tags=["thresholds"])
Threshold = Annotated[
    float,
    Field(ge=MIN_THRESHOLD, le=MAX_THRESHOLD, allow_inf_nan=False, description="a z of the autoencoder"),
]
Quorum = Annotated[int, Field(ge=1, le=MAX_QUORUM)]
AlertsPerDay = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]


class ThresholdsResponse(RequestModel):
    """The thresholds in force and the history of overrides, the newest first."""

    now: ThresholdEstimate
    overrides: list[ThresholdOverride]


class ThresholdPreviewRequest(RequestModel):
    """A number of alerts a day at most, or a threshold."""

    alerts_per_day: AlertsPerDay | None = None
    threshold: Threshold | None = None
    quorum: Quorum | None = None


class ThresholdRequest(RequestModel):
    """An override; without threshold and quorum the settings apply again.

    `alerts_per_day` is what the threshold has to keep; without a threshold it gives one. Status 400 where it cannot be met.
    """

    alerts_per_day: AlertsPerDay | None = None
    threshold: Threshold | None = None
    quorum: Quorum | None = None
    why: ReasonText


@router.get("/thresholds")
def get_thresholds(caller: Viewer, deps: Deps) -> ThresholdsResponse:
    """Return the thresholds in force."""
    found = require_thresholds(deps)
    return ThresholdsResponse(now=found.current(), overrides=list(found.override_history()))


@router.post("/thresholds/preview")
def preview_threshold(body: ThresholdPreviewRequest, caller: Viewer, deps: Deps) -> ThresholdEstimate:
    """Estimate a threshold by the stored votes of the last two weeks; nothing is changed.

    `unmet` says why a number of alerts a day cannot be met. The quorum in force is the default.
    """
    found = require_thresholds(deps)
    now = found.current()
    quorum = body.quorum or now.quorum
    if body.alerts_per_day is not None:
        return found.estimate_rate(body.alerts_per_day, quorum)
    return found.estimate(body.threshold or now.threshold, quorum)


@router.post("/thresholds", status_code=201)
def set_threshold(body: ThresholdRequest, caller: Engineer, deps: Deps) -> ThresholdOverride:
    """Apply a threshold from now on."""
    return require_thresholds(deps).set_override(
        body.threshold, body.quorum, body.why, by=caller.name, alerts_per_day=body.alerts_per_day
    )
