"""What the pages and the API stand on: the doors, wired by `pipelines/serve.py`, handed to every request.

Example:
    >>> @router.get("/alerts/counts")
    ... def counts(caller: Viewer, doors: TheDoors) -> dict[str, int]:
    ...     return doors.desk.counts(Filter())
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from fastapi import Depends, Request

from fingerprint.analysis.threshold_service import Thresholds
from fingerprint.core.alert import FingerprintError, NotThere
from fingerprint.core.case import Assign, Change
from fingerprint.core.ports import Clock, Desk
from fingerprint.core.ports.accounts import People, Provider
from fingerprint.core.ports.case_store import Changes, Queue, Suppressions
from fingerprint.core.settings import Settings
from fingerprint.registry.catalog import Banks


class WholeDesk(Desk, Queue, Suppressions, Changes, Protocol):
    """A desk as programs write to it and as people work on it."""


@dataclass(frozen=True, slots=True)
class Doors:
    """`banks` are those to look at; None where no bank is to be seen from here. `provider` vouches for people
    from elsewhere; None without one."""

    desk: WholeDesk
    people: People
    clock: Clock
    settings: Settings
    provider: Provider | None = None
    banks: Banks | None = None
    thresholds: Thresholds | None = None


def _doors(request: Request) -> Doors:
    doors: Doors = request.app.state.doors
    return doors


TheDoors = Annotated[Doors, Depends(_doors)]


def thresholds_of(doors: Doors) -> Thresholds:
    """FingerprintError on a server that has none to look at."""
    if doors.thresholds is None:
        raise FingerprintError(
            "thresholds cannot be looked at from here: this server was started without them"
        )
    return doors.thresholds


def checked(change: Change, doors: Doors) -> Change:
    """FingerprintError for an assignee who cannot work at this desk."""
    if isinstance(change, Assign) and change.to and not _can_work(change.to, doors):
        raise FingerprintError(f"{change.to!r} has no account here that works: assign it to somebody who has")
    return change


def _can_work(name: str, doors: Doors) -> bool:
    try:
        return doors.people.person(name).disabled_at is None
    except NotThere:
        return False
