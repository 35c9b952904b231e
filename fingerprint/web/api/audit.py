"""The audit: who did what to what, and when.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$DESK/api/v1/audit?target=3fa94c1be0d27a58"
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from fingerprint.casework import Entry
from fingerprint.web.access import Engineer
from fingerprint.web.api.asking import Size, Wanted
from fingerprint.web.doors import TheDoors

router = APIRouter(tags=["audit"])
Before = Annotated[int | None, Field(ge=1, le=2**63 - 1, description="the number of the last line seen")]


@router.get("/audit")
def audit(
    caller: Engineer, doors: TheDoors, target: Wanted = "", size: Size = 200, before: Before = None
) -> list[Entry]:
    """The newest lines first, of one target (an alert's id, a suppression's, a person's name) or of all."""
    return doors.desk.history(target, size, before)
