"""A principal: what is usual for it, how strange it was day by day, its alerts, and what is suppressed.

Example:
    GET /entities/123456789012:user/ana?key=123456789012:user/ana|s3|direct
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from fingerprint.analysis.principal_profile import VOTES_SHOWN, Card, card_of, days_of
from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import Filter, Page
from fingerprint.web import risk_chart, urls
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Doors, TheDoors
from fingerprint.web.layout import show

ALERTS = 50  # the newest
WIDE, NARROW = (1000, 170), (350, 150)  # the drawing for a desk's and for a pocket's screen
router = APIRouter()


@router.get("/entities/{principal:path}")
def entity(
    principal: str, request: Request, caller: Viewer, doors: TheDoors, key: str | None = None
) -> Response:
    """A principal by its key; `key` says which of its fingerprints is shown."""
    return _page(request, doors, principal, key)


@router.get("/alerts/{alert_id}/entity")
def entity_of(
    alert_id: str, request: Request, caller: Viewer, doors: TheDoors, key: str | None = None
) -> Response:
    """Whoever an alert is about: for names that make no path."""
    return _page(request, doors, doors.desk.row(alert_id).principal, key)


def _page(request: Request, doors: Doors, principal: str, key: str | None) -> Response:
    desk = doors.desk
    card, why = _card(doors, principal, key)
    days = days_of(desk.votes(principal, limit=VOTES_SHOWN, newest=True))
    mine = [each for each in desk.suppressions(ended=True) if each.match.principal == principal]
    pages = _alerts(doors, principal)
    return show(
        request,
        "desk/entity.html",
        title=principal[:120] or "A principal without a name",
        principal=principal,
        card=card,
        why=why,
        drawings=[drawing for size in (WIDE, NARROW) if (drawing := risk_chart.drawn(days, *size))],
        days=days[::-1],
        alerts=[row for page in pages for row in page.rows],
        total=sum(page.total for page in pages),
        suppressions=mine,
        links=urls,
        now=doors.clock.now(),
    )


def _alerts(doors: Doors, principal: str) -> list[Page]:
    """The newest that are shown, and the newest that are suppressed."""
    if not principal:
        return []
    which = (Filter(status="all", principal=principal, suppressed=hidden) for hidden in (False, True))
    return [doors.desk.page(each, "newest", ALERTS) for each in which]


def _card(doors: Doors, principal: str, key: str | None) -> tuple[Card | None, str]:
    """The card in the bank that is served; without one, why there is none."""
    if doors.banks is None:
        return None, "No bank can be seen from here: `fingerprint serve --bank FOLDER` shows what is usual."
    try:
        return card_of(doors.banks.served(), principal, doors.settings, key), ""
    except FingerprintError as error:
        return None, str(error)
