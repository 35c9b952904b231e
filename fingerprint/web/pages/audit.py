"""The audit log, which is append-only: as sentences, and as a file.

Example:
    GET /audit?target=3fa94c1be0d27a58
    GET /audit/export?by=ola&action=alert.decide&since=2026-03-01
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, BeforeValidator, Field

from fingerprint.core.case import AuditEntry, AuditFilter
from fingerprint.core.ports.store import AuditRepository
from fingerprint.core.time_range import format_iso
from fingerprint.delivery.formats.csv import safe_cell
from fingerprint.web import audit_text
from fingerprint.web.auth import Engineer
from fingerprint.web.dependencies import Deps
from fingerprint.web.language import gettext
from fingerprint.web.layout import render_page

LINES_PER_PAGE = 100  # lines of a page
LINES_PER_READ = 1000  # lines of an export that are in memory at once
CSV_COLUMNS = ("number", "at", "by", "action", "target", "detail")
router = APIRouter()
_Day = Annotated[date | None, BeforeValidator(lambda value: value or None)]  # an empty field asks for nothing


class AuditQuery(BaseModel):
    """The address of the page: whose entries, of what action and target, and of which days."""

    target: Annotated[str, Field(max_length=1000)] = ""
    by: Annotated[str, Field(max_length=200)] = ""
    action: Annotated[str, Field(max_length=100)] = ""
    since: _Day = None
    until: _Day = None

    def to_filter(self) -> AuditFilter:
        """Return the filter that the alert store takes; both days count whole."""
        return AuditFilter(
            self.target.strip(),
            self.by.strip(),
            self.action.strip(),
            datetime.combine(self.since, time.min, UTC) if self.since else None,
            datetime.combine(self.until, time.max, UTC) if self.until else None,
        )

    def url_with(self, path: str = "/audit", **changes: str) -> str:
        """Return the address with some values changed."""
        values = {name: str(value) for name, value in self.model_dump().items() if value} | changes
        given = {name: value for name, value in values.items() if value}
        return f"{path}?{urlencode(given)}" if given else path


@router.get("/audit")
def show_audit(
    request: Request,
    caller: Engineer,
    deps: Deps,
    query: Annotated[AuditQuery, Query()],
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
) -> Response:
    """Show the entries of a filter, the newest first."""
    entries = deps.store.audit.find(query.to_filter(), LINES_PER_PAGE, before)
    full = len(entries) == LINES_PER_PAGE
    return render_page(
        request,
        "queue/audit.html",
        title=gettext("Audit"),
        query=query,
        lines=[audit_text.describe_line(entry) for entry in entries],
        actions_known=audit_text.KNOWN_ACTIONS,
        next=query.url_with(before=str(entries[-1].number)) if full else "",
        first=before is None,
        now=deps.clock.now(),
    )


@router.get("/audit/export")
def export_audit(caller: Engineer, deps: Deps, query: Annotated[AuditQuery, Query()]) -> Response:
    """Send all entries of a filter as CSV, the newest first; a spreadsheet evaluates none of its cells."""
    headers = {"Content-Disposition": 'attachment; filename="audit.csv"'}
    rows = _csv_lines(deps.store.audit, query.to_filter())
    return StreamingResponse(rows, media_type="text/csv; charset=utf-8", headers=headers)


def _csv_lines(audit: AuditRepository, audit_filter: AuditFilter) -> Iterator[str]:
    yield _csv_line(list(CSV_COLUMNS))
    before: int | None = None
    while entries := audit.find(audit_filter, LINES_PER_READ, before):
        yield "".join(_csv_line(_cells(entry)) for entry in entries)
        before = entries[-1].number


def _cells(entry: AuditEntry) -> list[str]:
    at, details = format_iso(entry.at), audit_text.entry_details(entry)
    return [str(entry.number), at, entry.by, entry.action, entry.target, details]


def _csv_line(cells: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow([safe_cell(text) for text in cells])
    return out.getvalue()
