"""Leads: events just below the threshold of alerts, by principal, the nearest first.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$FINGERPRINT_URL/api/v1/leads?limit=20"
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from fingerprint.analysis.leads import MAX_LEADS, Lead, recent_leads
from fingerprint.web.api.queue_params import RequestModel, UtcDatetime
from fingerprint.web.api.responses import FiniteFloat, ResponseModel
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Deps

router = APIRouter(tags=["leads"])


class LeadsResponse(ResponseModel):
    """The strongest leads among votes on events from `since` on, the highest reach first.

    `threshold` is the z that opens an alert now, null where no bank says which one the alert budget sets. `suppressed` leads were
    left out, because a suppression of their principal, service or action matches all their events.
    """

    since: datetime
    threshold: FiniteFloat | None
    leads: tuple[Lead, ...]
    suppressed: int


class LeadParams(RequestModel):
    """The parameters of a list of leads; without `since` the last week with votes."""

    since: UtcDatetime | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_LEADS)] = 20


@router.get("/leads")
def list_leads(params: Annotated[LeadParams, Query()], caller: Viewer, deps: Deps) -> LeadsResponse:
    """List leads: events just below the threshold of alerts, by principal. They are no alerts, and are sent nowhere."""
    threshold = deps.thresholds.known_threshold() if deps.thresholds else None
    since, found = recent_leads(deps.store, deps.settings, params.since, deps.clock, params.limit)
    return LeadsResponse(since=since, threshold=threshold, leads=found.leads, suppressed=found.suppressed)
