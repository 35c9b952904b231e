"""/livez and /readyz, open to whoever asks and with no more than a word; /metrics for whoever may read.

Example:
    $ curl -H "Authorization: Bearer fpt_..." http://127.0.0.1:8080/metrics
"""

from __future__ import annotations

import logging

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from fingerprint.core.alert import FingerprintError
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Deps

router = APIRouter(include_in_schema=False, default_response_class=PlainTextResponse)
log = logging.getLogger("fingerprint.web")


@router.get("/livez")
async def livez() -> str:
    """Whether requests are taken."""
    return "ok\n"


@router.get("/readyz")
def readyz(deps: Deps) -> PlainTextResponse:
    """Whether the desk answers."""
    try:
        deps.store.feeds.checked_until()
    except FingerprintError as error:
        log.warning("the desk does not answer", extra={"fields": {"reason": str(error)}})
        return PlainTextResponse("the desk does not answer\n", 503)
    return PlainTextResponse("ok\n")


@router.get("/metrics")
def metrics(caller: Viewer) -> Response:
    """Prometheus'."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
