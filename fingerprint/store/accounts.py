"""Accounts and invitations, and the account store that joins them with logins, sessions, tokens and second factors.

Example:
    >>> store = open_account_store(alert_store.session, SystemClock(), settings.web)
    >>> store.logins.accept_invitation(store.accounts.create_first_invitation(), "maria", "four plain english words")
    'Q0b...'
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.core.account import Account, Invitation, Role, validate_name
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.accounts import AccountStore
from fingerprint.core.ports.clock import Clock
from fingerprint.core.settings import Web
from fingerprint.store import account_rows
from fingerprint.store.account_rows import AccountTable
from fingerprint.store.audit import add_audit_entry
from fingerprint.store.database import Locking, Session, reads, writes
from fingerprint.store.logins import SqlLoginRepository
from fingerprint.store.schema import Row, accounts, invitations
from fingerprint.store.second_factors import SqlSecondFactorRepository
from fingerprint.store.sessions import SqlSessionRepository
from fingerprint.store.tokens import SqlTokenRepository


def open_account_store(session: Session, clock: Clock, web: Web) -> AccountStore:
    """Return the accounts in the database of an open alert store (`store.session`)."""
    own = session.with_clock(clock.now)
    return AccountStore(
        accounts=SqlAccountRepository(own, web),
        logins=SqlLoginRepository(own, web),
        sessions=SqlSessionRepository(own, web),
        tokens=SqlTokenRepository(own, web),
        second_factors=SqlSecondFactorRepository(own, web),
    )


class SqlAccountRepository(AccountTable):
    """Accounts and invitations; each change and its line in the audit are one transaction."""

    @reads
    def list_all(self, connection: sql.Connection) -> list[Account]:
        """Return all accounts, by name."""
        rows = connection.execute(sql.select(accounts).order_by(accounts.c.name)).mappings()
        return [account_rows.to_account(dict(row)) for row in rows]

    @reads
    def get(self, connection: sql.Connection, name: str) -> Account:
        """Return an account. Raise NotFound if there is none."""
        return account_rows.to_account(account_rows.require_account(connection, name))

    @writes(Locking.ACCOUNTS)
    def create_first_invitation(self, connection: sql.Connection) -> str | None:
        """Return the secret of an invitation for the first admin; None if there is an admin, or the provider has all admins.

        Earlier invitations stay valid, because each replica of the web app makes one. All end as soon as there is an admin.
        """
        if not self._awaits_first_account(connection):
            return None
        return account_rows.insert_invitation(connection, self._now(), name="")

    @reads
    def awaits_first_account(self, connection: sql.Connection) -> bool:
        """Return whether no admin can log in yet, so that the first invitation must make one."""
        return self._awaits_first_account(connection)

    def _awaits_first_account(self, connection: sql.Connection) -> bool:
        by_provider = self._web.single_sign_on_only and not self._web.emergency_account
        return not by_provider and not account_rows.has_active_admin(connection)

    @reads
    def invitation(self, connection: sql.Connection, secret: str) -> Invitation | None:
        """Return an invitation by its secret, None for one that is no longer valid."""
        return account_rows.find_invitation(connection, self._now(), secret)

    @writes(Locking.ACCOUNTS)
    def invite(self, connection: sql.Connection, name: str, role: Role | None, by: str) -> str:
        """Return an invitation's secret: for a new account with `role`, or (None) for a new password of an existing account."""
        account_rows.require_local_login(name.strip().lower(), self._web)
        name, now = validate_name(name), self._now()
        if role is None:
            _require_password_allowed(account_rows.require_account(connection, name))
        else:
            account_rows.add_account(connection, now, name, role)
        detail = {"role": role} if role else {"password": "new"}
        add_audit_entry(connection, now, by, "account.invite", name, detail)
        account_rows.delete_invitation(connection, name)
        return account_rows.insert_invitation(connection, now, name)

    @writes(Locking.ACCOUNTS)
    def set_role(self, connection: sql.Connection, name: str, role: Role, by: str) -> None:
        """Change the role of an account, and end its sessions."""
        row = account_rows.require_account(connection, name)
        if row["role"] == role:
            return
        _require_remaining_admin(connection, row)
        account_rows.update_account(connection, row, role=role)
        account_rows.delete_account_sessions(connection, row["account_id"])
        add_audit_entry(connection, self._now(), by, "account.role", name, {"from": row["role"], "to": role})

    @writes(Locking.ACCOUNTS)
    def disable(self, connection: sql.Connection, name: str, by: str) -> None:
        """Disable an account, end its sessions, and revoke its tokens and invitation."""
        row, now = account_rows.require_account(connection, name), self._now()
        if row["disabled_at"]:
            return
        _require_remaining_admin(connection, row)
        account_rows.update_account(connection, row, disabled_at=now)
        account_rows.delete_account_sessions(connection, row["account_id"])
        account_rows.revoke_account_tokens(connection, now, row["account_id"])
        account_rows.delete_invitation(connection, name)
        add_audit_entry(connection, now, by, "account.disable", name)

    @writes(Locking.ACCOUNTS)
    def enable(self, connection: sql.Connection, name: str, by: str) -> None:
        """Enable an account; its tokens stay revoked."""
        row = account_rows.require_account(connection, name)
        if row["disabled_at"]:
            account_rows.update_account(connection, row, disabled_at=None)
            add_audit_entry(connection, self._now(), by, "account.enable", name)

    @writes(Locking.ACCOUNTS)
    def delete_expired(self, connection: sql.Connection) -> None:
        """Delete expired invitations."""
        connection.execute(sql.delete(invitations).where(invitations.c.expires_at <= self._now()))


def _require_remaining_admin(connection: sql.Connection, row: Row) -> None:
    """Raise FingerprintError for the last active admin."""
    person = account_rows.to_account(row)
    active = person.role == "admin" and person.is_active and not person.is_invited
    if active and not account_rows.has_active_admin(connection, except_account_id=person.account_id):
        raise FingerprintError(
            f"the account {person.name} is the last admin: make another account an admin first"
        )


def _require_password_allowed(row: Row) -> None:
    """Raise FingerprintError for an account that cannot have a password now."""
    if row["subject"]:
        raise FingerprintError(
            f"the account {row['name']} logs in at {row['issuer']} and has no password here"
        )
    if row["disabled_at"]:
        raise FingerprintError(f"the account {row['name']} is disabled: enable the account first")
