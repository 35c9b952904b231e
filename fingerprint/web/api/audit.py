"""The audit: who did what to what, and when.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$DESK/api/v1/audit?target=3fa94c1be0d27a58"
"""

from __future__ import annotations

from fastapi import APIRouter

from fingerprint.core.case import AuditEntry
from fingerprint.web.api.queue_params import BeforeNumber, PageSize, StorableText
from fingerprint.web.auth import Engineer
from fingerprint.web.dependencies import Deps

router = APIRouter(tags=["audit"])


@router.get("/audit")
def list_audit_entries(
    caller: Engineer, deps: Deps, target: StorableText = "", size: PageSize = 200, before: BeforeNumber = None
) -> list[AuditEntry]:
    """The newest lines first, of one target (an alert's id, a suppression's, a person's name) or of all."""
    return deps.store.audit.entries(target, size, before)
