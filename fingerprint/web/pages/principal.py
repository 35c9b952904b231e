"""A principal: what is usual for it, how strange it was day by day, its alerts, and what is suppressed.

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
)  # the drawing for a desk's and for a pocket's screen
router = APIRouter()


@router.get("/entities/{principal:path}")
def show_principal(
    principal: str, request: Request, caller: Viewer, deps: Deps, key: str | None = None
) -> Response:
    """A principal by its key; `key` says which of its fingerprints is shown."""
    return _page(request, deps, principal, key)


@router.get("/alerts/{alert_id}/entity")
def show_alert_principal(
    alert_id: str, request: Request, caller: Viewer, deps: Deps, key: str | None = None
) -> Response:
    """Whoever an alert is about: for names that make no path."""
    return _page(request, deps, deps.store.queue.row(alert_id).principal, key)


def _page(request: Request, deps: Dependencies, principal: str, key: str | None) -> Response:
    desk = deps.store
    card, why = _load_profile(deps, principal, key)
    days = daily_votes(desk.votes.read(principal, limit=MAX_CHARTED_VOTES, newest=True))
    mine = [each for each in desk.suppressions.list_all(ended=True) if each.match.principal == principal]
    pages = _alerts(deps, principal)
    return render_page(
        request,
        "desk/entity.html",
        title=principal[:120] or "A principal without a name",
        principal=principal,
        card=card,
        why=why,
        drawings=[
            drawing
            for size in (WIDE_RISK_CHART, NARROW_RISK_CHART)
            if (drawing := risk_chart.draw_risk_chart(days, *size))
        ],
        days=days[::-1],
        alerts=[row for page in pages for row in page.rows],
        total=sum(page.total for page in pages),
        suppressions=mine,
        links=urls,
        now=deps.clock.now(),
    )


def _alerts(deps: Dependencies, principal: str) -> list[QueuePage]:
    """The newest that are shown, and the newest that are suppressed."""
    if not principal:
        return []
    which = (AlertFilter(status="all", principal=principal, suppressed=hidden) for hidden in (False, True))
    return [deps.store.queue.page(each, "newest", ALERTS_SHOWN) for each in which]


def _load_profile(deps: Dependencies, principal: str, key: str | None) -> tuple[PrincipalProfile | None, str]:
    """The card in the bank that is served; without one, why there is none."""
    if deps.banks is None:
        return None, "No bank can be seen from here: `fingerprint serve --bank FOLDER` shows what is usual."
    try:
        return build_profile(deps.banks.open_served(), principal, deps.settings, key), ""
    except FingerprintError as error:
        return None, str(error)
