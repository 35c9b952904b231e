"""Banks and health: versions with their promotion decisions, readiness, stream progress and feed gaps.

Example:
    GET /banks
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from fingerprint.analysis.principal_profile import readiness_by_level
from fingerprint.core.errors import FingerprintError
from fingerprint.registry.bank import Bank
from fingerprint.registry.vote_rates import RatesByKind, votes_by_kind
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.language import gettext
from fingerprint.web.layout import render_page

LATE_AFTER = timedelta(hours=1)  # a partition that is further behind the clock is highlighted
SILENT_AFTER = timedelta(minutes=2)  # a program reports several times a minute
router = APIRouter()


class PartitionProgress(NamedTuple):
    """A partition of the events' topic, and the event time up to which it was read."""

    partition: str
    read_until: datetime
    late: bool


@router.get("/banks")
def show_banks(request: Request, caller: Viewer, deps: Deps) -> Response:
    """Show banks, programs, partitions, feed gaps, and whether retention waits."""
    now = deps.clock.now()
    bank, bank_error = _served_bank(deps)
    return render_page(
        request,
        "queue/banks.html",
        title=gettext("Banks and health"),
        versions=deps.banks.versions() if deps.banks else [],
        bank=bank.version if bank else "",
        bank_error=bank_error,
        levels=readiness_by_level(bank, deps.settings) if bank else [],
        detectors=list(_vote_rates(bank)),
        kinds=votes_by_kind(_vote_rates(bank)),
        partitions=_partitions(deps, now),
        programs=[(each, now - each.at > SILENT_AFTER) for each in deps.store.heartbeats.recent()],
        gaps=deps.store.feeds.gaps(),
        retention_paused_since=deps.store.retention.paused_since(deps.settings.retention),
        now=now,
    )


def _vote_rates(bank: Bank | None) -> dict[str, RatesByKind]:
    return bank.manifest["quality"]["vote_rates"] if bank else {}


def _partitions(deps: Dependencies, now: datetime) -> list[PartitionProgress]:
    """Return the partitions that reported their progress, the one furthest behind first."""
    complete = {
        place: datetime.fromtimestamp(closed, UTC)
        for place, closed in deps.store.feeds.complete_until().items()
    }
    behind = sorted(complete.items(), key=lambda each: (each[1], each[0]))
    return [PartitionProgress(place.label, moment, now - moment > LATE_AFTER) for place, moment in behind]


def _served_bank(deps: Dependencies) -> tuple[Bank | None, str]:
    """Return the served bank, or the reason that there is none."""
    if deps.banks is None:
        return None, "No bank folder is configured: `fingerprint serve --bank FOLDER` shows them."
    try:
        return deps.banks.open_served(), ""
    except FingerprintError as error:
        return None, str(error)
