"""What the pages and the API stand on: the doors, wired by `pipelines/serve.py`, handed to every request.

Example:
    >>> @router.get("/alerts/counts")
    ... def counts(caller: Viewer, doors: TheDoors) -> dict[str, int]:
    ...     return doors.desk.counts(Filter())
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from fingerprint.analysis.threshold_service import ThresholdService
from fingerprint.core.alert import FingerprintError, NotFound
from fingerprint.core.case import AssignCase, CaseAction
from fingerprint.core.ports import Clock
from fingerprint.core.ports.accounts import AccountStore, IdentityProvider
from fingerprint.core.ports.store import Store
from fingerprint.core.settings import Settings
from fingerprint.registry.catalog import BankCatalog


@dataclass(frozen=True, slots=True)
class Dependencies:
    """`banks` are those to look at; None where no bank is to be seen from here. `provider` vouches for people
    from elsewhere; None without one."""

    store: Store
    accounts: AccountStore
    clock: Clock
    settings: Settings
    provider: IdentityProvider | None = None
    banks: BankCatalog | None = None
    thresholds: ThresholdService | None = None


def _dependencies(request: Request) -> Dependencies:
    doors: Dependencies = request.app.state.dependencies
    return doors


Deps = Annotated[Dependencies, Depends(_dependencies)]


def require_thresholds(deps: Dependencies) -> ThresholdService:
    """FingerprintError on a server that has none to look at."""
    if deps.thresholds is None:
        raise FingerprintError(
            "thresholds cannot be looked at from here: this server was started without them"
        )
    return deps.thresholds


def check_assignee(change: CaseAction, deps: Dependencies) -> CaseAction:
    """FingerprintError for an assignee who cannot work at this desk."""
    if isinstance(change, AssignCase) and change.to and not _is_active_account(change.to, deps):
        raise FingerprintError(f"{change.to!r} has no account here that works: assign it to somebody who has")
    return change


def _is_active_account(name: str, deps: Dependencies) -> bool:
    try:
        return deps.accounts.account(name).disabled_at is None
    except NotFound:
        return False
