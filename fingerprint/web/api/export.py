"""Alerts as a file for other systems, whole and without a bound: CSV, JSON lines, ECS or OCSF.

Example:
    $ curl -OJ -H "Authorization: Bearer $TOKEN" "$DESK/api/v1/alerts/export?format=ocsf&status=all"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from fingerprint.core.case import Order, Page
from fingerprint.delivery.formats.registry import exported
from fingerprint.delivery.notification import News
from fingerprint.web import urls
from fingerprint.web.api.queue_params import Which
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Doors, TheDoors
from fingerprint.web.security_metrics import counted_export

router = APIRouter(tags=["alerts"])
TOGETHER = 100  # alerts in memory at once, with their events
CSV, LINES = "text/csv; charset=utf-8", "application/x-ndjson"


class Exporting(Which):
    """Which alerts, in which order and form."""

    format: Literal["csv", "jsonl", "ecs", "ocsf"] = "jsonl"
    order: Order = "urgency"


@router.get(
    "/alerts/export",
    response_class=StreamingResponse,
    responses={200: {"content": {CSV: {}, LINES: {}}, "description": "a line each; CSV has a header"}},
)
def export(
    asked: Annotated[Exporting, Query()], request: Request, caller: Viewer, doors: TheDoors
) -> StreamingResponse:
    """All alerts of a filter, read page by page while they are sent: one that changes meanwhile is as it is when it is read."""
    first = doors.desk.page(asked.filter(), asked.order, TOGETHER)  # while an error can still be said
    name = "alerts.csv" if asked.format == "csv" else f"alerts-{asked.format}.jsonl"
    which = asked.model_dump_json(exclude_defaults=True, exclude={"format"})
    alerts = counted_export(request, asked.format, which, _told(doors, asked, first))
    return StreamingResponse(
        exported(asked.format, alerts),
        media_type=CSV if asked.format == "csv" else LINES,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _told(doors: Doors, asked: Exporting, page: Page) -> Iterator[News]:
    """Every alert from a page on, with its events and the decision by which it stands."""
    base = doors.settings.web.public_url or ""
    while True:
        for alert, said in doors.desk.whole([row.alert_id for row in page.rows]):
            yield News(alert, "new", said, f"{base}{urls.alert(alert.alert_id)}" if base else "")
        if not page.following:
            return
        page = doors.desk.page(asked.filter(), asked.order, TOGETHER, page.following)
