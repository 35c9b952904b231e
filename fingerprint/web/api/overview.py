"""Figures for a team lead as JSON.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$FINGERPRINT_URL/api/v1/overview?days=28&response_hours=4"
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from fingerprint.core.overview import Overview
from fingerprint.web.api.queue_params import RequestModel
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Dependencies, Deps

router = APIRouter(tags=["overview"])
Hours = Annotated[float, Field(gt=0, le=10_000)]


class OverviewParams(RequestModel):
    """The number of days until now that are counted, and the target times with which open alerts are compared."""

    days: Annotated[int, Field(ge=1, le=366)] = 28
    response_hours: Hours = 4
    close_hours: Hours = 24


@router.get("/overview")
def get_overview(params: Annotated[OverviewParams, Query()], caller: Viewer, deps: Deps) -> Overview:
    """Return what came, what was decided, how long it took, and precision by week, detector and suppression."""
    return read_overview(deps, params)


def read_overview(deps: Dependencies, params: OverviewParams) -> Overview:
    """Return the figures of the last days until now."""
    now = deps.clock.now()
    return deps.store.overview.figures(
        now - timedelta(days=params.days), now, 3600 * params.response_hours, 3600 * params.close_hours
    )
