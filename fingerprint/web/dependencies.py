"""The dependencies of pages and API routes, wired by `pipelines/serve.py` and injected into every request.

Example:
    >>> @router.get("/alerts/counts")
    ... def count_alerts(caller: Viewer, deps: Deps) -> dict[str, int]:
    ...     return deps.store.queue.counts(AlertFilter())
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from fingerprint.analysis.threshold_service import ThresholdService
from fingerprint.core.account import Account
from fingerprint.core.address import NO_ADDRESS_TABLES, AddressTables
from fingerprint.core.case import AssignCase, CaseAction
from fingerprint.core.errors import FingerprintError, NotFound
from fingerprint.core.ports.accounts import AccountStore, IdentityProvider
from fingerprint.core.ports.clock import Clock
from fingerprint.core.ports.store import Store
from fingerprint.core.settings import Settings
from fingerprint.registry.catalog import BankCatalog


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The dependencies of the app. `banks` is None without a bank folder, `provider` is None without single sign-on."""

    store: Store
    account_store: AccountStore
    clock: Clock
    settings: Settings
    provider: IdentityProvider | None = None
    banks: BankCatalog | None = None
    thresholds: ThresholdService | None = None
    addresses: AddressTables = NO_ADDRESS_TABLES


def _dependencies(request: Request) -> Dependencies:
    deps: Dependencies = request.app.state.dependencies
    return deps


Deps = Annotated[Dependencies, Depends(_dependencies)]


def require_thresholds(deps: Dependencies) -> ThresholdService:
    """Return the threshold service; raise FingerprintError on a server without it."""
    if deps.thresholds is None:
        raise FingerprintError("thresholds are unavailable: this server was started without --bank")
    return deps.thresholds


def active_people(deps: Dependencies) -> list[Account]:
    """Return the accounts that alerts can be assigned to, by name, without people who have not accepted their invitation."""
    return [
        each for each in deps.account_store.accounts.list_all() if each.is_assignable and not each.is_invited
    ]


def check_assignee(change: CaseAction, deps: Dependencies) -> CaseAction:
    """Return the change; raise FingerprintError for an assignee who cannot decide alerts here."""
    if isinstance(change, AssignCase) and change.to and not is_assignable(change.to, deps):
        raise FingerprintError(f"{change.to!r} has no active account of an analyst: choose another assignee")
    return change


def is_assignable(name: str, deps: Dependencies) -> bool:
    """Return whether alerts can be assigned to this name."""
    try:
        return deps.account_store.accounts.get(name).is_assignable
    except NotFound:
        return False


def assignable_names(deps: Dependencies) -> list[str]:
    """Return all names that alerts can be assigned to, for the field of an assignee."""
    return [each.name for each in deps.account_store.accounts.list_all() if each.is_assignable]
