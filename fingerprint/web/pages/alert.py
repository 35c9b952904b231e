"""An alert: what it says, what explains it, what others showed, and what was done about it.

Example:
    GET /alerts/3fa94c1be0d27a58?from=service%3Diam
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from fingerprint.analysis.principal_profile import Learned, card_of
from fingerprint.core.alert import Alert, FingerprintError, Hop
from fingerprint.core.case import Evidence, Filter, Row
from fingerprint.web import audit_text, flash, queue_query, urls
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Doors, TheDoors, WholeDesk
from fingerprint.web.layout import show
from fingerprint.web.security_metrics import record_read
from fingerprint.web.static_report import explained

AROUND = 100  # alerts of the queue among which the next one is looked for
SIMILAR = 6  # alerts
EVENTS = 200  # of a page
WINDOWS = timedelta(days=1)  # on either side, in which alerts of the same principal are linked
router = APIRouter()


@router.get("/alerts/{alert_id}")
def alert(alert_id: str, request: Request, caller: Viewer, doors: TheDoors) -> Response:
    """One alert by its id. `from` is the query of the queue it was opened from, `events` where its page of events begins."""
    desk, asks = doors.desk, request.query_params
    queue = queue_query.of_query(asks.get("from", "")).query
    newest = desk.newest_change()
    row, whole = desk.row(alert_id), desk.explained(alert_id)
    evidence = desk.evidence(alert_id, EVENTS, asks.get("events") or None, raw=False)
    found = replace(whole, urgency=row.urgency, events=evidence.events)
    return show(
        request,
        "desk/alert.html",
        title=f"{row.urgency} · {found.title[:120]}",
        row=row,
        queue=queue,
        back=urls.alert(alert_id, queue),
        around=_around(desk, row, queue),
        after=flash.read(asks.multi_items(), desk),
        now=doors.clock.now(),
        newest=newest,
        links=urls,
        **explained(found),
        **_of_events(alert_id, evidence, queue, asks.get("events", "")),
        **_beside(doors, found, row),
    )


@router.get("/alerts/{alert_id}/record")
def record(alert_id: str, event: str, request: Request, caller: Viewer, doors: TheDoors) -> Response:
    """The raw record of one event, as AWS wrote it."""
    found, removed = doors.desk.event(alert_id, event), doors.desk.records_removed(alert_id)
    record_read(request, alert_id, bool(found.raw), event)
    back = urls.alert(alert_id)
    return show(request, "desk/record.html", title="A record", back=back, event=found, removed=removed)


def _of_events(alert_id: str, evidence: Evidence, queue: str, began: str) -> dict[str, Any]:
    """Where their records lie, and the pages of events around this one."""

    def more(following: str) -> str:
        asks = {"from": queue, "events": following}
        return f"{urls.alert(alert_id)}?{urlencode(asks)}#timeline"

    return {
        "record_of": lambda event: urls.record(alert_id, event.event_id),
        "total": evidence.total,
        "following": evidence.following,
        "page_of_events": began,
        "more": more,
    }


def _beside(doors: Doors, found: Alert, row: Row) -> dict[str, Any]:
    """What stands beside an alert: its past and its people, others like it, and what judged it."""
    desk, alert_id = doors.desk, row.alert_id
    return {
        "neighbours": _neighbours(desk, row),
        "chain": _chain(desk, found),
        "shared": desk.shared_by(alert_id),
        "similar": [each for each in desk.similar(alert_id, limit=SIMILAR) if each.alert_id != alert_id],
        "held": _held(doors, found),
        "story": audit_text.story(desk.history(alert_id), desk.notes(alert_id), desk.dispositions(alert_id)),
    }


def _around(desk: WholeDesk, row: Row, queue: str) -> dict[str, str]:
    """Addresses of the alerts before and after this one in its queue, `prev` and `next`; empty where there is none, or this one
    is no longer among the first: then the first is next."""
    wanted = queue_query.of_query(queue)
    ids = [each.alert_id for each in desk.page(wanted.filter, wanted.order, AROUND).rows]
    at = ids.index(row.alert_id) if row.alert_id in ids else -1
    beside = {"prev": ids[at - 1 : at] if at > 0 else [], "next": ids[at + 1 : at + 2]}
    return {name: urls.alert(found[0], queue) if found else "" for name, found in beside.items()}


def _neighbours(desk: WholeDesk, row: Row) -> list[Row]:
    """Alerts of the same principal in windows nearby, the oldest first."""
    start, end = row.window_start - WINDOWS, row.last_event_time + WINDOWS
    near = Filter(status="all", principal=row.principal, since=start, until=end)
    rows = desk.page(near, "oldest", 20).rows if row.principal else ()
    return [each for each in rows if each.alert_id != row.alert_id]


def _chain(desk: WholeDesk, found: Alert) -> list[Hop]:
    """Who began its sessions, the first caller first: of the access key that most events used."""
    keys = [event.access_key for event in found.events if event.access_key]
    return desk.chain(max(keys, key=keys.count))[::-1] if keys else []


def _held(doors: Doors, found: Alert) -> Sequence[Learned]:
    """The fingerprints in the served bank that judge what the alert is about: their thresholds, and what moved them."""
    if doors.banks is None:
        return ()
    try:
        card = card_of(doors.banks.served(), found.principal, doors.settings)
    except FingerprintError:
        return ()
    keys = {found.principal, *(event.entity for event in found.events)}
    return [each for each in card.fingerprints if each.key in keys and each.ready]
