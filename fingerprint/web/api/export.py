"""Export alerts to a file without a limit of size: CSV, JSON lines, ECS or OCSF.

Example:
    $ curl -OJ -H "Authorization: Bearer $TOKEN" "$FINGERPRINT_URL/api/v1/alerts/export?format=ocsf&status=all"
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from fingerprint.core.case import QueueOrder
from fingerprint.delivery.formats import encode_export
from fingerprint.delivery.notification import Notification
from fingerprint.web import urls
from fingerprint.web.api.queue_params import AlertFilterParams
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.security_metrics import count_export
from fingerprint.web.session_origin import export_notifications

router = APIRouter(tags=["alerts"])
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
    """Stream the alerts that a filter finds now. They are read while they are sent; each has the state in which it was read."""
    alert_filter = params.to_filter(caller.name)
    # All ids are read at once, so that an alert is not missed if its position in the order changes.
    ids = deps.store.queue.ids(alert_filter, params.order)
    name = "alerts.csv" if params.format == "csv" else f"alerts-{params.format}.jsonl"
    which = params.model_dump_json(exclude_defaults=True, exclude={"format"})
    alerts = count_export(request, params.format, which, _export_rows(deps, ids))
    return StreamingResponse(
        encode_export(params.format, alerts),
        media_type=CSV_MEDIA_TYPE if params.format == "csv" else NDJSON_MEDIA_TYPE,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _export_rows(deps: Dependencies, ids: Sequence[str]) -> Iterator[Notification]:
    """Return alerts with their events and their current decision; those that were removed are left out."""
    base = deps.settings.web.public_url
    found = deps.store.evidence.full_alerts(ids)
    return export_notifications(
        deps.store,
        found,
        deps.addresses,
        lambda alert_id: f"{base}{urls.alert_url(alert_id)}" if base else "",
    )
