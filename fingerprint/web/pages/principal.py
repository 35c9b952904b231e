"""A principal: its alerts, what else it did, from where and with which credentials, its hours, and its usual behaviour.

Example:
    GET /entities/123456789012:user/ana?key=123456789012:user/ana|s3|direct
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
from fastapi import APIRouter, Request, Response

from fingerprint.analysis.principal_activity import (
    PrincipalActivity,
    fold_repeats,
    hours_of,
    usual_hours,
)
from fingerprint.analysis.principal_profile import (
    MAX_CHARTED_VOTES,
    daily_votes,
)
from fingerprint.core.case import AlertFilter, PrincipalEvents, QueuePage, QueueRow
from fingerprint.core.errors import FingerprintError
from fingerprint.detection.detectors import load_known_detectors
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import EventQuery
from fingerprint.web import risk_chart, urls, week_chart
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.language import N_, gettext
from fingerprint.web.layout import render_page
from fingerprint.web.pages.alert import console_links
from fingerprint.web.principal_facts import load_activity, load_profile

ALERTS_SHOWN = 50  # the newest
LINES_SHOWN = 100  # of the list of events, repeats folded
NOTES_SHOWN = 20
AROUND = timedelta(days=1)  # before and after the newest alert, for which the queries ask
QUERIED_KEYS = 5  # access keys in a query, each a command of its own
WIDE_RISK_CHART = (1000, 150)  # width and height of the drawing for a wide screen
NARROW_RISK_CHART = (350, 150)  # width and height of the drawing for a narrow screen
KINDS = (  # kinds of values that were seen, with their headings
    ("sessions", N_("Sessions")),
    ("access_keys", N_("Access keys")),
    ("addresses", N_("Addresses")),
    ("resources", N_("Resources")),
    ("actions", N_("Actions")),
    ("programs", N_("Programs")),
)
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
    profile, profile_error = load_profile(deps, principal, key)
    pages = _alerts(deps, principal)
    rows = [row for page in pages for row in page.rows]
    return render_page(
        request,
        "queue/principal.html",
        title=principal[:120] or gettext("A principal without a name"),
        principal=principal,
        profile=profile,
        profile_error=profile_error,
        alerts=rows,
        total=sum(page.total for page in pages),
        suppressions=_suppressions(deps, principal),
        notes=deps.store.principals.notes(principal, NOTES_SHOWN),
        urls=urls,
        now=deps.clock.now(),
        **_activity_context(deps, principal, rows),
    )


def _activity_context(deps: Dependencies, principal: str, rows: Sequence[QueueRow]) -> dict[str, Any]:
    """Return what the alerts and single votes of a principal show of what it did, and the queries for the rest."""
    store = deps.store
    found, activity = load_activity(store, principal)
    votes = store.votes.read(principal, limit=MAX_CHARTED_VOTES, newest=True)
    days = daily_votes(votes)
    lines = fold_repeats(found.events)
    return {
        "activity": activity,
        "kinds": [(name, heading, getattr(activity, name)) for name, heading in KINDS],
        "events_total": found.total,
        "lines": lines[:LINES_SHOWN],
        "lines_total": len(lines),
        "queries": _queries(principal, rows, activity),
        "keys_not_queried": max(activity.distinct["access_keys"] - QUERIED_KEYS, 0),
        **_console_links(principal, activity),
        "weeks": _weeks(deps, principal, found, votes),
        "charts": [risk_chart.draw_risk_charts(days, *size) for size in (WIDE_RISK_CHART, NARROW_RISK_CHART)],
        "days": days[::-1],
    }


def _queries(
    principal: str, rows: Sequence[QueueRow], activity: PrincipalActivity
) -> tuple[datetime, datetime, tuple[EventQuery, ...]] | None:
    """Return the span around the newest alert, and queries for all that the principal did in it; None where nothing names it."""
    if not rows:
        return None
    newest = max(rows, key=lambda row: row.last_event_time)
    since, until = newest.first_event_time - AROUND, newest.last_event_time + AROUND
    keys = [each.text for each in activity.access_keys[:QUERIED_KEYS]]
    queries = SOURCE.principal_queries(principal, keys, since, until)
    return (since, until, queries) if queries else None


def _console_links(principal: str, activity: PrincipalActivity) -> dict[str, Any]:
    """Return addresses in the console, in the region that was seen last, and how many access keys have none."""
    keys = [each.text for each in activity.access_keys]
    region = activity.regions[0].text if activity.regions else ""
    return console_links(principal, keys, activity.distinct["access_keys"], region)


def _weeks(
    deps: Dependencies, principal: str, found: PrincipalEvents, votes: pd.DataFrame
) -> dict[str, week_chart.WeekChart | None]:
    """Return the pictures of the usual week and of the hours in which its known events were."""
    usual = None
    if deps.banks is not None:
        try:
            usual = usual_hours(deps.banks.open_served(), principal)
        except FingerprintError:  # the page says so where it speaks of the bank
            usual = None
    times = {each.event.event_id: each.event.event_time for each in found.events}
    by_event = [
        each.name for each in load_known_detectors(votes["detector"].unique()) if each.granularity == "event"
    ]
    single = votes[votes["detector"].isin(by_event)]
    for event_id, at in zip(single["event_id"], single["event_time"], strict=True):
        times.setdefault(event_id, at.to_pydatetime())
    return {"usual": week_chart.draw_week(usual), "now": week_chart.draw_week(hours_of(times.values()))}


def _suppressions(deps: Dependencies, principal: str) -> list[Any]:
    return [
        each for each in deps.store.suppressions.list_all(ended=True) if each.match.principal == principal
    ]


def _alerts(deps: Dependencies, principal: str) -> list[QueuePage]:
    """Return the newest alerts that are shown, and the newest that are suppressed."""
    if not principal:
        return []
    which = (AlertFilter(status="all", principal=principal, suppressed=hidden) for hidden in (False, True))
    return [deps.store.queue.page(each, "newest", ALERTS_SHOWN) for each in which]
