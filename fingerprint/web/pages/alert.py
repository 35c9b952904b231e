"""An alert with its explanation, related alerts and activity.

Example:
    GET /alerts/3fa94c1be0d27a58?from=service%3Diam
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from fingerprint.analysis.principal_profile import FingerprintSummary, PrincipalProfile, build_profile
from fingerprint.core.alert import Alert
from fingerprint.core.case import AlertFilter, QueueRow
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.store import Store
from fingerprint.core.sanitize import storable
from fingerprint.core.story import CallSummary, EventRun, RunPage
from fingerprint.delivery.formats.text import readable_principal
from fingerprint.sources.active import SOURCE
from fingerprint.web import audit_text, flash, queue_query, urls
from fingerprint.web.alert_story import AlertStory, alert_story, shown_scores
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Dependencies, Deps, active_people
from fingerprint.web.language import gettext
from fingerprint.web.layout import render_page
from fingerprint.web.pages.preview import decision_in_force
from fingerprint.web.security_metrics import record_read
from fingerprint.web.session_origin import read_origin, with_opener
from fingerprint.web.static_report import alert_context
from fingerprint.web.timeline_query import MAX_CALL_LENGTH, TimelineQuery, parse_timeline

MAX_QUEUE_ROWS = 100  # first alerts of the queue, among which the next one is searched
MAX_SIMILAR = 6  # alerts
LINKED_KEYS = 3  # access keys with an address in the console
RECORDS_READ = 100  # first and last events whose records are read for facts about credentials
ROWS_PER_PAGE = 100  # of a timeline
NEARBY_TIME = timedelta(days=1)  # before and after an alert, within which alerts of its principal are linked
router = APIRouter()


@router.get("/alerts/{alert_id}")
def show_alert(alert_id: str, request: Request, caller: Viewer, deps: Deps) -> Response:
    """Show an alert. `from` is the query of the queue it was opened from, the rest asks for its timeline."""
    store, asks = deps.store, request.query_params
    queue = queue_query.parse_query_string(asks.get("from", "")).query
    newest = store.changes.newest_number()
    row, whole = store.queue.row(alert_id), store.evidence.summary(alert_id)
    found = replace(whole, urgency=row.urgency)
    story = alert_story(
        found,
        store.evidence.calls([alert_id]),
        store.evidence.tallies([alert_id]),
        _some_records(store, alert_id),
    )
    origin = read_origin(store, alert_id, story.tallies["access_key"])
    return render_page(
        request,
        "queue/alert.html",
        title=f"{row.urgency} · {found.title[:120]}",
        row=row,
        queue=queue,
        back=urls.alert_url(alert_id, queue),
        adjacent=_adjacent_urls(store, row, queue, caller.name),
        flash=flash.read_flash(request, store, deps.settings),
        people=_others(deps, row, caller.name) if caller.has_role("analyst") else [],
        now=deps.clock.now(),
        newest_change=newest,
        urls=urls,
        total=row.events,
        story=story,
        **alert_context(with_opener(found, origin)),
        **_timeline_context(store, alert_id, story, parse_timeline(asks), queue),
        **_related_context(deps, found, row, story),
        chain=origin.chain[::-1],
        readable_principal=readable_principal,
        opener=origin.opener,
        other_records=origin.other_records,
    )


@router.get("/alerts/{alert_id}/record")
def show_record(alert_id: str, event: str, request: Request, caller: Viewer, deps: Deps) -> Response:
    """Show the raw record of one event, as AWS wrote it."""
    found = deps.store.evidence.event(alert_id, event)
    removed = deps.store.evidence.records_removed_at(alert_id)
    record_read(request, alert_id, bool(found.raw), event)
    back = urls.alert_url(alert_id)
    return render_page(
        request, "queue/record.html", title=gettext("A record"), back=back, event=found, removed=removed
    )


def _some_records(store: Store, alert_id: str) -> list[str]:
    """Return the records of the first and last RECORDS_READ events of an alert, enough for facts about credentials."""
    first = store.evidence.events(alert_id, RECORDS_READ)
    rest = first.total - len(first.events)
    last = store.evidence.events(alert_id, min(RECORDS_READ, rest), newest_first=True).events if rest else ()
    return [event.raw for event in (*first.events, *last)]


def _others(deps: Dependencies, row: QueueRow, own_name: str) -> list[str]:
    """Return the people to whom the alert can be assigned, without its assignee, and without the caller, who has a button."""
    return [each.name for each in active_people(deps) if each.name not in (own_name, row.assignee)]


def _timeline_context(
    store: Store, alert_id: str, story: AlertStory, timeline: TimelineQuery, queue: str
) -> dict[str, Any]:
    """Return the requested rows of the timeline, and the addresses of other rows."""
    page = _read_rows(store, alert_id, story, timeline)

    def timeline_url(query: TimelineQuery) -> str:
        came = {"from": queue} if queue else {}
        return f"{urls.alert_url(alert_id)}?{urlencode(came | query.parameters())}#timeline"

    def call_url(call: CallSummary) -> str:
        fits = len(call.name) <= MAX_CALL_LENGTH and storable(call.name) == call.name
        return timeline_url(TimelineQuery(call=call.name)) if fits else ""

    return {
        "timeline": timeline,
        "page": page,
        "timeline_url": timeline_url,
        "call_url": call_url,
        "rest_url": lambda run: timeline_url(
            timeline.toggled(unfolded=True, newest=False, cursor=run.following)
        ),
        "record_url_of": lambda event: urls.record_url(alert_id, event.event_id),
        "scores_of": shown_scores,
        "searches_of": SOURCE.record_searches,
    }


def _read_rows(store: Store, alert_id: str, story: AlertStory, timeline: TimelineQuery) -> RunPage:
    """Return a page of runs, or of single events in the shape of runs."""
    selection, cursor = timeline.selection(story.phases), timeline.cursor or None
    if not timeline.unfolded:
        return store.evidence.runs(alert_id, selection, ROWS_PER_PAGE, cursor, timeline.newest)
    page = store.evidence.events(alert_id, ROWS_PER_PAGE, cursor, False, selection, timeline.newest)
    runs = tuple(EventRun((event,), 1, event.event_time, 1, 1) for event in page.events)
    return RunPage(runs, page.total, page.total, page.following)


def _related_context(deps: Dependencies, found: Alert, row: QueueRow, story: AlertStory) -> dict[str, Any]:
    """Return what is shown beside an alert: related alerts, thresholds and activity."""
    store, alert_id = deps.store, row.alert_id
    similar = [each for each in store.queue.similar(alert_id, limit=MAX_SIMILAR) if each.alert_id != alert_id]
    incident = _incident_alerts(store, row)
    known = {each.alert_id for each in incident}
    profile = _profile(deps, found.principal)
    return {
        "incident": incident,
        "neighbours": [each for each in _nearby_alerts(store, row) if each.alert_id not in known],
        "shared": store.prevalence.of_alert(alert_id),
        "similar": similar,
        "outcomes": Counter(each.decision for each in similar if each.decision),
        "thresholds": _thresholds_in_force(profile, story),
        "peer_group": profile.group if profile else "",
        **console_links(found.principal, *_keys_and_region(story)),
        "decided": decision_in_force(store, row),
        "activity": audit_text.activity_log(
            store.audit.entries(alert_id), store.cases.notes(alert_id), store.cases.dispositions(alert_id)
        ),
    }


def _adjacent_urls(store: Store, row: QueueRow, queue: str, reader: str) -> dict[str, str]:
    """Return URLs of the alerts before and after this one in the reader's queue, `prev` and `next`; empty without one.

    Where this alert is no longer among the first rows, the first row is next.
    """
    query = queue_query.parse_query_string(queue)
    rows = store.queue.first_rows(query.filter_of(reader), query.order, MAX_QUEUE_ROWS)
    ids = [each.alert_id for each in rows]
    at = ids.index(row.alert_id) if row.alert_id in ids else -1
    beside = {"prev": ids[at - 1 : at] if at > 0 else [], "next": ids[at + 1 : at + 2]}
    return {name: urls.alert_url(found[0], queue) if found else "" for name, found in beside.items()}


def _incident_alerts(store: Store, row: QueueRow) -> list[QueueRow]:
    """Return the other alerts of its incident, the oldest first."""
    if row.incident_size < 2:
        return []
    return [
        each.row for each in store.incidents.get(row.incident_id).alerts if each.row.alert_id != row.alert_id
    ]


def _nearby_alerts(store: Store, row: QueueRow) -> list[QueueRow]:
    """Return alerts of the same principal in windows nearby, the oldest first."""
    start, end = row.window_start - NEARBY_TIME, row.last_event_time + NEARBY_TIME
    near = AlertFilter(status="all", principal=row.principal, since=start, until=end)
    rows = store.queue.first_rows(near, "oldest", 20) if row.principal else ()
    return [each for each in rows if each.alert_id != row.alert_id]


def console_links(principal: str, keys: Sequence[str], distinct: int, region: str) -> dict[str, Any]:
    """Return addresses in the console of a principal and its first keys, and how many of the `distinct` keys have none."""
    links = SOURCE.principal_links(principal, keys[:LINKED_KEYS], region)
    return {"console_links": links, "keys_without_link": max(distinct - LINKED_KEYS, 0)}


def _keys_and_region(story: AlertStory) -> tuple[list[str], int, str]:
    """Return the access keys of an alert, their number, and the region of most of its events."""
    keys, regions = story.tallies["access_key"], story.tallies["region"].values
    return [key for key, _ in keys.values], keys.distinct, regions[0][0] if regions else ""


def _profile(deps: Dependencies, principal: str) -> PrincipalProfile | None:
    """Return what the served bank knows of a principal; None without a bank."""
    if deps.banks is None:
        return None
    try:
        return build_profile(deps.banks.open_served(), principal, deps.settings)
    except FingerprintError:
        return None


def _thresholds_in_force(profile: PrincipalProfile | None, story: AlertStory) -> Sequence[FingerprintSummary]:
    """Return the fingerprints of the served bank that score the alert's events, with their thresholds."""
    if profile is None:
        return ()
    keys = {profile.principal, *(key for key, _ in story.tallies["entity"].values)}
    return [each for each in profile.fingerprints if each.key in keys and each.ready]
