"""Banks and health: which version judges and what the gate said of it, who is ready, how far the stream is, which feeds fell
silent.

Example:
    GET /banks
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from fingerprint.analysis.principal_profile import readiness_by_level
from fingerprint.core.alert import FingerprintError
from fingerprint.registry.bank import Bank
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.layout import render_page

LATE_AFTER = timedelta(hours=1)  # behind the clock by more is said aloud
SILENT_AFTER = timedelta(minutes=2)  # a program speaks several times a minute
router = APIRouter()


class PartitionProgress(NamedTuple):
    """A partition of the events' topic, and up to when (event time) it was read."""

    partition: str
    read_until: datetime
    late: bool


@router.get("/banks")
def show_banks(request: Request, caller: Viewer, deps: Deps) -> Response:
    """All of it on one page."""
    now = deps.clock.now()
    bank, why = _served_bank(deps)
    return render_page(
        request,
        "desk/banks.html",
        title="Banks and health",
        versions=deps.banks.versions() if deps.banks else [],
        bank=bank.version if bank else "",
        why=why,
        levels=readiness_by_level(bank, deps.settings) if bank else [],
        partitions=_partitions(deps, now),
        programs=[(each, now - each.at > SILENT_AFTER) for each in deps.store.heartbeats.recent()],
        notices=deps.store.feeds.gaps(),
        now=now,
    )


def _partitions(deps: Dependencies, now: datetime) -> list[PartitionProgress]:
    """Those that said how far they are, the one that is furthest behind first."""
    upto = {
        place: datetime.fromtimestamp(closed, UTC)
        for place, closed in deps.store.feeds.complete_until().items()
    }
    behind = sorted(upto.items(), key=lambda each: (each[1], each[0]))
    return [PartitionProgress(place.label, moment, now - moment > LATE_AFTER) for place, moment in behind]


def _served_bank(deps: Dependencies) -> tuple[Bank | None, str]:
    """The bank that is served; without one, why there is none."""
    if deps.banks is None:
        return None, "No bank can be seen from here: `fingerprint serve --bank FOLDER` shows them."
    try:
        return deps.banks.open_served(), ""
    except FingerprintError as error:
        return None, str(error)
