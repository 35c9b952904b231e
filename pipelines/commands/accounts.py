"""Accounts of the web app: `fingerprint accounts`, for the first admin and for a person who is locked out.

Example:
    $ fingerprint accounts invite maria
    Open this once, within 24 hours: http://127.0.0.1:8080/setup/Q0b...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fingerprint.adapters.system import SystemClock
from fingerprint.core.account import Account, Role
from fingerprint.core.ports.accounts import AccountStore
from fingerprint.core.settings import Settings
from fingerprint.store import open_store
from fingerprint.store.accounts import open_account_store
from pipelines.runtime import host


def list_accounts(settings: Settings, database_url: str) -> list[dict[str, Any]]:
    """Return all accounts, in the order of their names: the figures of `accounts list --json`."""
    with _open_account_store(settings, database_url) as account_store:
        return [_account_as_json(each) for each in account_store.accounts.list_all()]


def invite_account(settings: Settings, database_url: str, name: str, role: Role | None) -> dict[str, Any]:
    """Return a link for a new account with a role, or for a new password of an existing account."""
    with _open_account_store(settings, database_url) as account_store:
        secret = account_store.accounts.invite(name, role, by=host.operator_name())
    return {
        "name": name.strip().lower(),
        "link": f"{settings.web.base_url(settings.web.port)}/setup/{secret}",
    }


def change_role(settings: Settings, database_url: str, name: str, role: Role) -> dict[str, Any]:
    """Change the role of an account and return the account."""
    with _open_account_store(settings, database_url) as account_store:
        account_store.accounts.set_role(name, role, by=host.operator_name())
        return _account_as_json(account_store.accounts.get(name))


def disable_account(settings: Settings, database_url: str, name: str, enable: bool = False) -> dict[str, Any]:
    """Disable an account, which ends its sessions, tokens and links; with `enable`, enable it again. Return the account."""
    with _open_account_store(settings, database_url) as account_store:
        (account_store.accounts.enable if enable else account_store.accounts.disable)(
            name, by=host.operator_name()
        )
        return _account_as_json(account_store.accounts.get(name))


def end_sessions(settings: Settings, database_url: str, name: str) -> dict[str, Any]:
    """End the sessions and tokens of an account, which can log in again. Return the account."""
    with _open_account_store(settings, database_url) as account_store:
        account_store.sessions.end_all(name, by=host.operator_name())
        return _account_as_json(account_store.accounts.get(name))


def reset_second_factor(settings: Settings, database_url: str, name: str) -> dict[str, Any]:
    """Remove the second factors of an account, and end its sessions. Return the account."""
    with _open_account_store(settings, database_url) as account_store:
        account_store.second_factors.reset(name, by=host.operator_name())
        return _account_as_json(account_store.accounts.get(name))


def print_invitation_link(figures: dict[str, Any]) -> None:
    """Print the link of an invitation."""
    print(f"Open this once, within 24 hours: {figures['link']}")


def print_accounts(found: list[dict[str, Any]]) -> None:
    """Print a table of accounts."""
    table = Table("name", "role", "state", "last login", box=None, header_style="bold")
    for each in found:
        table.add_row(*(escape(str(each[key] or "never")) for key in ("name", "role", "state", "last_login")))
    Console().print(
        table if found else "no account exists yet: `fingerprint serve` prints a link for the first admin"
    )


@contextmanager
def _open_account_store(settings: Settings, database_url: str) -> Iterator[AccountStore]:
    store = open_store(database_url, create=False)
    try:
        yield open_account_store(store.session, SystemClock(), settings.web)
    finally:
        store.close()


def _account_as_json(account: Account) -> dict[str, Any]:
    state = (
        "disabled" if account.disabled_at else "invited" if account.is_invited else account.issuer or "local"
    )
    return {
        "name": account.name,
        "role": account.role,
        "state": state,
        "last_login": account.last_login and f"{account.last_login:%Y-%m-%d %H:%M}",
    }
