"""The audit log, which is append-only.

Example:
    GET /audit?target=3fa94c1be0d27a58
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from fingerprint.web import audit_text
from fingerprint.web.auth import Engineer
from fingerprint.web.dependencies import Deps
from fingerprint.web.language import gettext
from fingerprint.web.layout import render_page

LINES_PER_PAGE = 100  # lines of a page
router = APIRouter()


@router.get("/audit")
def show_audit(
    request: Request,
    caller: Engineer,
    deps: Deps,
    target: Annotated[str, Query(max_length=1000)] = "",
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
) -> Response:
    """Show entries, the newest first; those of one target where one is given."""
    entries = deps.store.audit.entries(target.strip(), LINES_PER_PAGE, before)
    more = {"target": target, "before": str(entries[-1].number)} if len(entries) == LINES_PER_PAGE else None
    return render_page(
        request,
        "queue/audit.html",
        title=gettext("Audit"),
        target=target,
        lines=[(entry, audit_text.entry_details(entry)) for entry in entries],
        next=f"/audit?{urlencode(more)}" if more else "",
        first=before is None,
        now=deps.clock.now(),
    )
