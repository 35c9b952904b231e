"""The preview of an alert, beside the queue: what it is, what was called, what to do, what was decided.

Example:
    GET /alerts/3fa94c1be0d27a58/preview?from=service%3Diam

A page of its own without script; with it, the queue fetches the page and shows its middle beside the list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from fingerprint.core.alert import GRAVITIES, AlertEvent, Disposition
from fingerprint.core.case import QueueRow
from fingerprint.core.ports.store import Store
from fingerprint.sources.active import SOURCE
from fingerprint.web import queue_query, urls
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Deps
from fingerprint.web.layout import render_page

MAX_EVENTS = 200  # of an alert, whose calls are counted
MAX_CALLS = 8  # of these, the gravest
router = APIRouter()


@dataclass(frozen=True, slots=True)
class CallCount:
    """How often an action was called, and how often it failed."""

    service: str
    action: str
    count: int
    failed: int


@router.get("/alerts/{alert_id}/preview")
def show_preview(alert_id: str, request: Request, caller: Viewer, deps: Deps) -> Response:
    """Show an alert in short."""
    store = deps.store
    queue = queue_query.parse_query_string(request.query_params.get("from", ""))
    row = store.queue.row(alert_id)
    evidence = store.evidence.events(alert_id, MAX_EVENTS, None, raw=False)
    calls = count_calls(evidence.events)
    return render_page(
        request,
        "queue/preview.html",
        title="Preview",
        row=row,
        alert=store.evidence.summary(alert_id),
        query=queue,
        events=evidence.events,
        calls=calls[:MAX_CALLS],
        more_calls=len(calls[MAX_CALLS:]),
        decided=decision_in_force(store, row),
        notes=store.cases.notes(alert_id)[-2:],
        urls=urls,
        now=deps.clock.now(),
    )


def decision_in_force(store: Store, row: QueueRow) -> Disposition | None:
    """Return the decision of an alert that has one: who made it, when, and why."""
    return store.cases.dispositions(row.alert_id)[-1] if row.decision else None


def count_calls(events: Sequence[AlertEvent]) -> list[CallCount]:
    """Return the calls of some events: the gravest first, of equally grave ones the most frequent."""
    counts = Counter((event.service, event.action) for event in events)
    failures = Counter((event.service, event.action) for event in events if event.error_code)

    def order(call: tuple[str, str]) -> tuple[int, int, tuple[str, str]]:
        return -GRAVITIES.index(SOURCE.impact_of(*call, "").gravity), -counts[call], call

    return [CallCount(*call, counts[call], failures[call]) for call in sorted(counts, key=order)]
