"""Leads: events just below the threshold of alerts, for analysts who have time left.

Example:
    GET /leads?days=7&limit=20
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from fingerprint.analysis.leads import LEAD_DAYS, MAX_LEADS, recent_leads
from fingerprint.core.alert import GRAVITIES
from fingerprint.core.case import AlertFilter
from fingerprint.detection.detectors import calibrated_detectors, detector_names
from fingerprint.detection.ensemble import MIN_REACH
from fingerprint.web import urls
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Deps
from fingerprint.web.language import gettext
from fingerprint.web.layout import render_page

DAYS = (1, LEAD_DAYS, 14)  # that the page offers
LIMITS = (20, 50, MAX_LEADS)
router = APIRouter()


class LeadQuery(BaseModel):
    """The address of the list: days before the newest vote, and how many leads at most."""

    days: Annotated[int, Field(ge=1, le=90)] = LEAD_DAYS
    limit: Annotated[int, Field(ge=1, le=MAX_LEADS)] = LIMITS[0]


@router.get("/leads")
def show_leads(
    query: Annotated[LeadQuery, Query()], request: Request, caller: Viewer, deps: Deps
) -> Response:
    """Show the strongest leads; where there is none, why."""
    newest = deps.store.votes.newest_time()
    since = (newest or deps.clock.now()) - timedelta(days=query.days)
    threshold = deps.thresholds.known_threshold() if deps.thresholds else None
    since, found = recent_leads(deps.store, deps.settings, since, deps.clock, query.limit)
    return render_page(
        request,
        "queue/leads.html",
        title=gettext("Leads"),
        me=caller,
        query=query,
        days=DAYS,
        limits=LIMITS,
        found=found,
        since=since,
        newest=newest,
        threshold=threshold,
        least_reach=MIN_REACH,
        shown_gravities=GRAVITIES[GRAVITIES.index("notable") :],
        can_have_leads=bool(calibrated_detectors(detector_names(deps.settings))),
        open_alerts=deps.store.queue.counts(AlertFilter())["open"],
        urls=urls,
    )
