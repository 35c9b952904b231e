"""A principal: its usual behaviour, anomaly by day, alerts and suppressions.

Example:
    GET /entities/123456789012:user/ana?key=123456789012:user/ana|s3|direct
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from fingerprint.analysis.principal_profile import (
    MAX_CHARTED_VOTES,
    PrincipalProfile,
    build_profile,
    daily_votes,
)
from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import AlertFilter, QueuePage
from fingerprint.web import risk_chart, urls
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.layout import render_page

ALERTS_SHOWN = 50  # the newest
WIDE_RISK_CHART, NARROW_RISK_CHART = (
    (1000, 170),
    (350, 150),
)  # the drawing for a wide and a narrow screen
router = APIRouter()


@router.get("/entities/{principal:path}")
def show_principal(
    principal: str, request: Request, caller: Viewer, deps: Deps, key: str | None = None
) -> Response:
    """Show a principal by its key; `key` selects one of its fingerprints."""
    return _page(request, deps, principal, key)


@router.get("/alerts/{alert_id}/entity")
def show_alert_principal(
    alert_id: str, request: Request, caller: Viewer, deps: Deps, key: str | None = None
) -> Response:
    """Show the principal of an alert, for names that cannot be part of a path."""
    return _page(request, deps, deps.store.queue.row(alert_id).principal, key)


def _page(request: Request, deps: Dependencies, principal: str, key: str | None) -> Response:
    store = deps.store
    profile, profile_error = _load_profile(deps, principal, key)
    days = daily_votes(store.votes.read(principal, limit=MAX_CHARTED_VOTES, newest=True))
    mine = [each for each in store.suppressions.list_all(ended=True) if each.match.principal == principal]
    pages = _alerts(deps, principal)
    return render_page(
        request,
        "queue/principal.html",
        title=principal[:120] or "A principal without a name",
        principal=principal,
        profile=profile,
        profile_error=profile_error,
        drawings=[
            drawing
            for size in (WIDE_RISK_CHART, NARROW_RISK_CHART)
            if (drawing := risk_chart.draw_risk_chart(days, *size))
        ],
        days=days[::-1],
        alerts=[row for page in pages for row in page.rows],
        total=sum(page.total for page in pages),
        suppressions=mine,
        urls=urls,
        now=deps.clock.now(),
    )


def _alerts(deps: Dependencies, principal: str) -> list[QueuePage]:
    """Return the newest alerts that are shown, and the newest that are suppressed."""
    if not principal:
        return []
    which = (AlertFilter(status="all", principal=principal, suppressed=hidden) for hidden in (False, True))
    return [deps.store.queue.page(each, "newest", ALERTS_SHOWN) for each in which]


def _load_profile(deps: Dependencies, principal: str, key: str | None) -> tuple[PrincipalProfile | None, str]:
    """Return the profile in the served bank, or the reason that there is none."""
    if deps.banks is None:
        return None, "No bank folder is configured: `fingerprint serve --bank FOLDER` shows what is usual."
    try:
        return build_profile(deps.banks.open_served(), principal, deps.settings, key), ""
    except FingerprintError as error:
        return None, str(error)
