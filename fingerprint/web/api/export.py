"""Export alerts to a file without a limit of size: CSV, JSON lines, ECS or OCSF.

Example:
    $ curl -OJ -H "Authorization: Bearer $TOKEN" "$FINGERPRINT_URL/api/v1/alerts/export?format=ocsf&status=all"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from fingerprint.core.case import AlertFilter, QueueOrder, QueuePage
from fingerprint.delivery.formats import encode_export
from fingerprint.delivery.notification import Notification
from fingerprint.web import urls
from fingerprint.web.api.queue_params import AlertFilterParams
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.security_metrics import count_export

router = APIRouter(tags=["alerts"])
EXPORT_BATCH = 100  # alerts in memory at once, with their events
CSV_MEDIA_TYPE, NDJSON_MEDIA_TYPE = "text/csv; charset=utf-8", "application/x-ndjson"


class ExportParams(AlertFilterParams):
    """The filter, order and format of an export."""

    format: Literal["csv", "jsonl", "ecs", "ocsf"] = "jsonl"
    order: QueueOrder = "urgency"


@router.get(
    "/alerts/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {CSV_MEDIA_TYPE: {}, NDJSON_MEDIA_TYPE: {}},
            "description": "a line each; CSV has a header",
        }
    },
)
def export_alerts(
    params: Annotated[ExportParams, Query()], request: Request, caller: Viewer, deps: Deps
) -> StreamingResponse:
    """Stream all alerts of a filter, read page by page while they are sent: each is as it was when it was read."""
    asked = params.to_filter(caller.name)
    first = deps.store.queue.page(asked, params.order, EXPORT_BATCH)  # while an error can still be answered
    name = "alerts.csv" if params.format == "csv" else f"alerts-{params.format}.jsonl"
    which = params.model_dump_json(exclude_defaults=True, exclude={"format"})
    alerts = count_export(request, params.format, which, _export_rows(deps, asked, params.order, first))
    return StreamingResponse(
        encode_export(params.format, alerts),
        media_type=CSV_MEDIA_TYPE if params.format == "csv" else NDJSON_MEDIA_TYPE,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _export_rows(
    deps: Dependencies, asked: AlertFilter, order: QueueOrder, page: QueuePage
) -> Iterator[Notification]:
    """Yield the alerts from a page on, with their events and their current decision."""
    base = deps.settings.web.public_url or ""
    while True:
        for alert, disposition in deps.store.evidence.full_alerts([row.alert_id for row in page.rows]):
            link = f"{base}{urls.alert_url(alert.alert_id)}" if base else ""
            yield Notification(alert, "new", disposition, link, deps.addresses)
        if not page.following:
            return
        page = deps.store.queue.page(asked, order, EXPORT_BATCH, page.following, page.total)
