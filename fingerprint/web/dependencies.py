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
from fingerprint.core.account import Account, role_includes
from fingerprint.core.address import NO_ADDRESS_TABLES, AddressTables
from fingerprint.core.case import AssignCase, CaseAction
from fingerprint.core.errors import FingerprintError, NotFound
from fingerprint.core.ports import Clock
from fingerprint.core.ports.accounts import AccountStore, IdentityProvider
from fingerprint.core.ports.store import Store
from fingerprint.core.settings import Settings
from fingerprint.registry.catalog import BankCatalog


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The dependencies of the app. `banks` is None where no bank folder is configured; `provider` without single sign-on."""

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
    """Return the accounts that alerts are assigned to: active ones of analysts and above, by name."""
    return [
        each
        for each in deps.account_store.accounts.list_all()
        if each.is_active and not each.is_invited and role_includes(each.role, "analyst")
    ]


def check_assignee(change: CaseAction, deps: Dependencies) -> CaseAction:
    """Return the change; raise FingerprintError for an assignee without an active account."""
    if isinstance(change, AssignCase) and change.to and not has_active_account(change.to, deps):
        raise FingerprintError(f"{change.to!r} has no active account: choose another assignee")
    return change


def has_active_account(name: str, deps: Dependencies) -> bool:
    """Return whether an account of this name exists and is not disabled."""
    try:
        return deps.account_store.accounts.get(name).is_active
    except NotFound:
        return False


def active_account_names(deps: Dependencies) -> list[str]:
    """Return the names of all active accounts, for the field of an assignee."""
    return [each.name for each in deps.account_store.accounts.list_all() if each.is_active]
