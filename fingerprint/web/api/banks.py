"""The versions of the bank, what the gate said of each, and how the desk and its feeds are doing.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$DESK/api/v1/health"
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from fastapi import APIRouter

from fingerprint.analysis.principal_profile import LevelReadiness, readiness_by_level
from fingerprint.core.alert import FingerprintError, NotFound
from fingerprint.core.case import AlertFilter, ProgramStatus
from fingerprint.registry.catalog import BankVersion
from fingerprint.web.api.responses import FiniteFloat, ResponseModel
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Dependencies, Deps

router = APIRouter(tags=["banks and health"])


class ServedBank(ResponseModel):
    """The version that is served, and how many of its fingerprints speak for themselves, by level."""

    version: str
    since: str
    until: str
    levels: tuple[LevelReadiness, ...]


class FeedGapResponse(ResponseModel):
    """A feed from which nothing comes although much was expected; `ended_at` is null while it is silent."""

    notice_id: str
    kind: Literal["account", "region", "source"]
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
    """How far one partition of the events' topic has been read, in event time. `lag_seconds`: how long ago that is."""

    topic: str
    number: int
    read_to: datetime
    lag_seconds: float


class HealthResponse(ResponseModel):
    """What the desk knows of what runs before it. `lag_seconds` is that of the slowest partition, null where no stream has said
    how far it is. `programs` say how they are, several times a minute: lag in messages, dead letters among their figures."""

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
    """Those that are kept, the one written last first; none where no bank is to be seen from here."""
    return deps.banks.versions() if deps.banks else []


@router.get("/banks/served")
def get_served_bank(caller: Viewer, deps: Deps) -> ServedBank:
    """Which is served, who in it is ready, and who still warms up."""
    if deps.banks is None:
        raise NotFound("no bank is to be seen from here: `fingerprint serve --bank FOLDER`")
    bank = deps.banks.open_served()
    since, until = bank.manifest["span"]
    levels = readiness_by_level(bank, deps.settings)
    return ServedBank(version=bank.version, since=since, until=until, levels=levels)


@router.get("/health")
def get_health(caller: Viewer, deps: Deps) -> HealthResponse:
    """How far the stream is, which feeds fell silent, which bank is served."""
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
    """Those that have said how far they are, in their order."""
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
    """The version that is served, or why there is none."""
    try:
        return (deps.banks.served_version(), "") if deps.banks else ("", "no bank is to be seen from here")
    except FingerprintError as error:
        return "", str(error)
