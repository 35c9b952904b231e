"""The versions of the bank, what the gate said of each, and how the desk and its feeds are doing.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$DESK/api/v1/health"
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from fastapi import APIRouter

from fingerprint.analysis.principal_profile import Readiness, readiness
from fingerprint.core.alert import FingerprintError, NotThere
from fingerprint.core.case import Filter, Report
from fingerprint.registry.catalog import BankVersion
from fingerprint.web.api.responses import Figure, Said
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Doors, TheDoors

router = APIRouter(tags=["banks and health"])


class Served(Said):
    """The version that is served, and how many of its fingerprints speak for themselves, by level."""

    version: str
    since: str
    until: str
    levels: tuple[Readiness, ...]


class Notice(Said):
    """A feed from which nothing comes although much was expected; `ended_at` is null while it is silent."""

    notice_id: str
    kind: Literal["account", "region", "source"]
    feed: str
    since: datetime
    seen_at: datetime
    expected: Figure
    hourly: Figure
    urgency: int
    title: str
    ended_at: datetime | None
    ending: str


class Partition(Said):
    """How far one partition of the events' topic has been read, in event time. `lag_seconds`: how long ago that is."""

    topic: str
    number: int
    read_to: datetime
    lag_seconds: float


class Health(Said):
    """What the desk knows of what runs before it. `lag_seconds` is that of the slowest partition, null where no stream has said
    how far it is. `programs` say how they are, several times a minute: lag in messages, dead letters among their figures."""

    at: datetime
    bank: str
    no_bank: str
    open_alerts: int
    lag_seconds: float | None
    partitions: tuple[Partition, ...]
    programs: tuple[Report, ...]
    silent: tuple[Notice, ...]


@router.get("/banks")
def banks(caller: Viewer, doors: TheDoors) -> list[BankVersion]:
    """Those that are kept, the one written last first; none where no bank is to be seen from here."""
    return doors.banks.versions() if doors.banks else []


@router.get("/banks/served")
def served(caller: Viewer, doors: TheDoors) -> Served:
    """Which is served, who in it is ready, and who still warms up."""
    if doors.banks is None:
        raise NotThere("no bank is to be seen from here: `fingerprint serve --bank FOLDER`")
    bank = doors.banks.served()
    since, until = bank.manifest["span"]
    levels = readiness(bank, doors.settings)
    return Served(version=bank.version, since=since, until=until, levels=levels)


@router.get("/health")
def health(caller: Viewer, doors: TheDoors) -> Health:
    """How far the stream is, which feeds fell silent, which bank is served."""
    now = doors.clock.now()
    partitions = _partitions(doors, now)
    bank, why = _served(doors)
    return Health(
        at=now,
        bank=bank,
        no_bank=why,
        open_alerts=doors.desk.counts(Filter())["open"],
        lag_seconds=max((each.lag_seconds for each in partitions), default=None),
        partitions=partitions,
        programs=tuple(doors.desk.reports()),
        silent=doors.desk.notices(ended=False),
    )


def _partitions(doors: Doors, now: datetime) -> list[Partition]:
    """Those that have said how far they are, in their order."""
    return [
        Partition(
            topic=place.topic,
            number=place.number,
            read_to=datetime.fromtimestamp(closed, UTC),
            lag_seconds=max(0.0, now.timestamp() - closed),
        )
        for place, closed in sorted(doors.desk.feeds_closed().items())
    ]


def _served(doors: Doors) -> tuple[str, str]:
    """The version that is served, or why there is none."""
    try:
        return (doors.banks.current(), "") if doors.banks else ("", "no bank is to be seen from here")
    except FingerprintError as error:
        return "", str(error)
