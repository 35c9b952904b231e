"""The audit: who did what to what, and when.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$DESK/api/v1/audit?target=3fa94c1be0d27a58"
"""

from __future__ import annotations

from fastapi import APIRouter

from fingerprint.core.case import Entry
from fingerprint.web.api.queue_params import Before, Size, Wanted
from fingerprint.web.auth import Engineer
from fingerprint.web.dependencies import TheDoors

router = APIRouter(tags=["audit"])


@router.get("/audit")
def audit(
    caller: Engineer, doors: TheDoors, target: Wanted = "", size: Size = 200, before: Before = None
) -> list[Entry]:
    """The newest lines first, of one target (an alert's id, a suppression's, a person's name) or of all."""
    return doors.desk.history(target, size, before)
