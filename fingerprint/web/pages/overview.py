"""The overview for a team lead: what came, what was decided, how long it took, and how often alerts were attacks.

Example:
    GET /overview?days=28&response_hours=4&close_hours=24
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from fingerprint.core.incident import IncidentFilter
from fingerprint.core.overview import SEVERITIES
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.web.api.overview import OverviewParams, read_overview
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Deps
from fingerprint.web.formatting import count_of
from fingerprint.web.language import gettext
from fingerprint.web.layout import render_page
from fingerprint.web.overview_chart import draw_days, draw_precision

WIDE, NARROW = (1000, 240), (350, 220)  # of a chart, for a wide and a narrow screen
_EVERY_INCIDENT = IncidentFilter(status="all")
router = APIRouter()


@router.get("/overview")
def show_overview(
    query: Annotated[OverviewParams, Query()], request: Request, caller: Viewer, deps: Deps
) -> Response:
    """Show the figures of the last days."""
    found = read_overview(deps, query)
    return render_page(
        request,
        "queue/overview.html",
        title=gettext("Overview"),
        query=query,
        found=found,
        incidents=deps.store.incidents.counts(_EVERY_INCIDENT),
        days=[draw_days(found.days, *size) for size in (WIDE, NARROW)],
        weeks=[draw_precision(found.by_week, *size) for size in (WIDE, NARROW)],
        severities=SEVERITIES,
        seconds_as_text=seconds_as_text,
    )


def seconds_as_text(seconds: float | None) -> str:
    """Return a duration in its largest unit that has two or more of it: `90 minutes`, `3 days`."""
    if seconds is None:
        return gettext("too few")
    left = timedelta(seconds=seconds).total_seconds()
    for size, unit in ((DAY_SECONDS, "day"), (3_600, "hour"), (60, "minute")):
        if left >= 2 * size:
            return count_of(round(left / size), unit)
    return count_of(round(left), "second")
