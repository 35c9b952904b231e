"""Banks and health: which version judges and what the gate said of it, who is ready, how far the stream is, which feeds fell
silent.

Example:
    GET /banks
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from fingerprint.analysis.principal_profile import readiness
from fingerprint.core.alert import FingerprintError
from fingerprint.registry.bank import Bank
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Doors, TheDoors
from fingerprint.web.layout import show

LATE = timedelta(hours=1)  # behind the clock by more is said aloud
SILENT = timedelta(minutes=2)  # a program speaks several times a minute
router = APIRouter()


class Read(NamedTuple):
    """A partition of the events' topic, and up to when (event time) it was read."""

    place: str
    upto: datetime
    late: bool


@router.get("/banks")
def banks(request: Request, caller: Viewer, doors: TheDoors) -> Response:
    """All of it on one page."""
    now = doors.clock.now()
    bank, why = _served(doors)
    return show(
        request,
        "desk/banks.html",
        title="Banks and health",
        versions=doors.banks.versions() if doors.banks else [],
        bank=bank.version if bank else "",
        why=why,
        levels=readiness(bank, doors.settings) if bank else [],
        partitions=_partitions(doors, now),
        programs=[(each, now - each.at > SILENT) for each in doors.desk.reports()],
        notices=doors.desk.notices(),
        now=now,
    )


def _partitions(doors: Doors, now: datetime) -> list[Read]:
    """Those that said how far they are, the one that is furthest behind first."""
    upto = {place: datetime.fromtimestamp(closed, UTC) for place, closed in doors.desk.feeds_closed().items()}
    behind = sorted(upto.items(), key=lambda each: (each[1], each[0]))
    return [Read(place.place, moment, now - moment > LATE) for place, moment in behind]


def _served(doors: Doors) -> tuple[Bank | None, str]:
    """The bank that is served; without one, why there is none."""
    if doors.banks is None:
        return None, "No bank can be seen from here: `fingerprint serve --bank FOLDER` shows them."
    try:
        return doors.banks.served(), ""
    except FingerprintError as error:
        return None, str(error)
