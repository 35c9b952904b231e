"""Thresholds: what events are held to, what others would show, and a choice.

Example:
    $ curl -X POST -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
        -d '{"alerts_per_day": 5, "quorum": 2}' "$DESK/api/v1/thresholds/preview"
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from fingerprint.core.case import Foreseen, Tuned
from fingerprint.web.api.queue_params import Asked, Reason
from fingerprint.web.auth import Engineer, Viewer
from fingerprint.web.dependencies import TheDoors, thresholds_of

router = APIRouter(tags=["thresholds"])
Threshold = Annotated[float, Field(ge=1, le=37, allow_inf_nan=False, description="a z of the autoencoder")]
Quorum = Literal[1, 2]


class Held(Asked):
    """What events are held to now, and who chose what, the newest first."""

    now: Foreseen
    chosen: list[Tuned]


class Foreseeing(Asked):
    """So many alerts a day at most, or a threshold."""

    alerts_per_day: Annotated[float | None, Field(gt=0, le=10_000, allow_inf_nan=False)] = None
    threshold: Threshold | None = None
    quorum: Quorum = 2


class Choosing(Asked):
    """Without threshold and quorum what the settings say holds again."""

    threshold: Threshold | None = None
    quorum: Quorum | None = None
    why: Reason


@router.get("/thresholds")
def thresholds(caller: Viewer, doors: TheDoors) -> Held:
    """What events are held to."""
    found = thresholds_of(doors)
    return Held(now=found.holds(), chosen=list(found.chosen()))


@router.post("/thresholds/preview")
def foresee(asked: Foreseeing, caller: Viewer, doors: TheDoors) -> Foreseen:
    """What it would have shown on the last two weeks of votes on this desk; nothing is changed."""
    found = thresholds_of(doors)
    if asked.alerts_per_day is not None:
        return found.foreseen(found.wanted(asked.alerts_per_day, asked.quorum), asked.quorum)
    return found.foreseen(asked.threshold or found.holds().threshold, asked.quorum)


@router.post("/thresholds", status_code=201)
def choose(asked: Choosing, caller: Engineer, doors: TheDoors) -> Tuned:
    """Hold events to it from now on."""
    return thresholds_of(doors).choose(asked.threshold, asked.quorum, asked.why, by=caller.name)
