"""The preview of an alert, beside the queue: what it is, what was called, what to do, what was decided.

Example:
    GET /alerts/3fa94c1be0d27a58/preview?from=service%3Diam

A page of its own without script; with it, the queue fetches the page and shows its middle beside the list.
"""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter, Request, Response

from fingerprint.core.alert import GRAVITIES, Disposition
from fingerprint.core.case import QueueRow
from fingerprint.core.ports.store import Store
from fingerprint.core.story import CallSummary
from fingerprint.sources.active import SOURCE
from fingerprint.web import queue_query, urls
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Deps
from fingerprint.web.language import gettext
from fingerprint.web.layout import render_page

MAX_CALLS = 8  # the gravest
router = APIRouter()


@router.get("/alerts/{alert_id}/preview")
def show_preview(alert_id: str, request: Request, caller: Viewer, deps: Deps) -> Response:
    """Show an alert in short."""
    store = deps.store
    queue = queue_query.parse_query_string(request.query_params.get("from", ""))
    row = store.queue.row(alert_id)
    calls = sort_by_gravity(store.evidence.calls([alert_id]))
    return render_page(
        request,
        "queue/preview.html",
        title=gettext("Preview"),
        row=row,
        alert=store.evidence.summary(alert_id),
        query=queue,
        addresses=store.evidence.tallies([alert_id])["source_address"],
        calls=calls[:MAX_CALLS],
        more_calls=len(calls[MAX_CALLS:]),
        decided=decision_in_force(store, row),
        notes=store.cases.notes(alert_id)[-2:],
        urls=urls,
        now=deps.clock.now(),
    )


def decision_in_force(store: Store, row: QueueRow) -> Disposition | None:
    """Return the decision of an alert that has one: who made it, when, and why; None where it was undone after `row` was read."""
    found = store.cases.dispositions(row.alert_id) if row.decision else []
    return found[-1] if found else None


def sort_by_gravity(calls: Iterable[CallSummary]) -> list[CallSummary]:
    """Return calls with the gravest first, of equally grave ones the most frequent."""

    def order(call: CallSummary) -> tuple[int, int, str]:
        return (
            -GRAVITIES.index(SOURCE.impact_of(call.service, call.action, "").gravity),
            -call.events,
            call.name,
        )

    return sorted(calls, key=order)
