"""The versions of the bank with their promotion decisions, and the health of the alert store and its feeds.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$FINGERPRINT_URL/api/v1/health"
"""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter

from fingerprint.analysis.principal_profile import LevelReadiness, readiness_by_level
from fingerprint.core.alert import FeedKind
from fingerprint.core.case import AlertFilter, ProgramStatus
from fingerprint.core.errors import FingerprintError, NotFound
from fingerprint.registry.catalog import BankVersion
from fingerprint.web.api.responses import FiniteFloat, ResponseModel
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Dependencies, Deps

router = APIRouter(tags=["banks and health"])


class ServedBank(ResponseModel):
    """The served version, and how many of its fingerprints are ready, by level."""

    version: str
    since: str
    until: str
    levels: tuple[LevelReadiness, ...]


class FeedGapResponse(ResponseModel):
    """A gap of a feed: no records although many were expected; `ended_at` is null while it lasts."""

    notice_id: str
    kind: FeedKind
    feed: str
    since: datetime
    seen_at: datetime
    expected: FiniteFloat
    hourly: FiniteFloat
    urgency: int
    title: str
    ended_at: datetime | None
    ending: str


class PartitionLag(ResponseModel):
    """Progress of one partition of the events' topic in event time. `lag_seconds`: how long ago that is."""

    topic: str
    number: int
    read_to: datetime
    lag_seconds: float


class HealthResponse(ResponseModel):
    """The state of the programs that write to the alert store.

    `lag_seconds` is that of the slowest partition, null before a stream reports. `programs` report several times a minute: lag in
    messages, dead letters among their figures.
    """

    at: datetime
    bank: str
    no_bank: str
    open_alerts: int
    lag_seconds: float | None
    partitions: tuple[PartitionLag, ...]
    programs: tuple[ProgramStatus, ...]
    silent: tuple[FeedGapResponse, ...]


@router.get("/banks")
def list_banks(caller: Viewer, deps: Deps) -> list[BankVersion]:
    """List the stored versions, the last written first; none where no bank folder is configured."""
    return deps.banks.versions() if deps.banks else []


@router.get("/banks/served")
def get_served_bank(caller: Viewer, deps: Deps) -> ServedBank:
    """Return the served version, and how many of its fingerprints are ready or warming up."""
    if deps.banks is None:
        raise NotFound("no bank folder is configured: `fingerprint serve --bank FOLDER`")
    bank = deps.banks.open_served()
    since, until = bank.manifest["span"]
    levels = readiness_by_level(bank, deps.settings)
    return ServedBank(version=bank.version, since=since, until=until, levels=levels)


@router.get("/health")
def get_health(caller: Viewer, deps: Deps) -> HealthResponse:
    """Return the stream's progress, the feed gaps and the served bank."""
    now = deps.clock.now()
    partitions = _partition_lags(deps, now)
    bank, why = _served_version(deps)
    return HealthResponse(
        at=now,
        bank=bank,
        no_bank=why,
        open_alerts=deps.store.queue.counts(AlertFilter())["open"],
        lag_seconds=max((each.lag_seconds for each in partitions), default=None),
        partitions=partitions,
        programs=tuple(deps.store.heartbeats.recent()),
        silent=deps.store.feeds.gaps(ended=False),
    )


def _partition_lags(deps: Dependencies, now: datetime) -> list[PartitionLag]:
    """Return the partitions that reported their progress, in their order."""
    return [
        PartitionLag(
            topic=place.topic,
            number=place.number,
            read_to=datetime.fromtimestamp(closed, UTC),
            lag_seconds=max(0.0, now.timestamp() - closed),
        )
        for place, closed in sorted(deps.store.feeds.complete_until().items())
    ]


def _served_version(deps: Dependencies) -> tuple[str, str]:
    """Return the served version, or the reason that there is none."""
    try:
        return (deps.banks.served_version(), "") if deps.banks else ("", "no bank folder is configured")
    except FingerprintError as error:
        return "", str(error)
