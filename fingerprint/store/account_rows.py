"""Rows of accounts, and changes to them that several repositories make."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NoReturn, TypeVar
from uuid import uuid4

import sqlalchemy as sql

from fingerprint.core.account import ACCOUNT_NAME_PATTERN, Account, AuthenticationFailed, Invitation, Role
from fingerprint.core.errors import FingerprintError, NotFound
from fingerprint.core.settings import Web
from fingerprint.store import secret_hashes
from fingerprint.store.database import Locking, Repository, Session
from fingerprint.store.schema import Row, accounts, invitations, pending_logins, sessions, tokens

PASSWORDS_DISABLED = "passwords are switched off here: log in through the provider"
INVITATION_LIFETIME = timedelta(hours=24)

T = TypeVar("T")
_can_log_in = sql.or_(accounts.c.password.is_not(None), accounts.c.subject != "")
_active_admin = sql.and_(accounts.c.role == "admin", accounts.c.disabled_at.is_(None), _can_log_in)


class AccountTable(Repository):
    """Base of the repositories of accounts, which share the settings of the web app and write under a lock of their own.

    The lock puts changes in sequence, so two changes at once cannot remove the last admin. It is not the scorer's lock, so a
    login does not wait for the scorer.
    """

    def __init__(self, session: Session, web: Web) -> None:
        super().__init__(session)
        self._web = web

    def _now(self) -> datetime:
        """Return the time of the session's clock, UTC."""
        return self._session.now()

    def _write(self, work: Callable[[sql.Connection], T]) -> T:
        """Return the result of `work` in one writing transaction."""
        return self._session.write(work, Locking.ACCOUNTS)

    def _try_write(self, work: Callable[[sql.Connection], None]) -> None:
        """Write if the database is available: `work` can as well be written the next time."""
        with suppress(FingerprintError):
            self._write(work)


def raise_refused(sentence: str) -> NoReturn:
    """Raise AuthenticationFailed; as a function it can stand in an expression."""
    raise AuthenticationFailed(sentence)


def to_account(row: Row) -> Account:
    """Return the account of a row of `accounts`."""
    names = ("account_id", "name", "role", "created_at", "disabled_at", "last_login", "issuer", "subject")
    return Account(**{name: row[name] for name in names}, has_password=row["password"] is not None)


def find_account(connection: sql.Connection, name: str) -> Row | None:
    """Return an account's row by its stored name, None without one."""
    if not ACCOUNT_NAME_PATTERN.fullmatch(name):  # the database may refuse some typed texts
        return None
    row = connection.execute(sql.select(accounts).where(accounts.c.name == name)).mappings().first()
    return dict(row) if row else None


def require_account(connection: sql.Connection, name: str) -> Row:
    """Return an account's row by its name. Raise NotFound without one."""
    if row := find_account(connection, name):
        return row
    raise NotFound(f"there is no account {name[:64]!r}; `fingerprint accounts list` shows them")


def password_unchanged(connection: sql.Connection, row: Row) -> bool:
    """Return whether the password that was verified is still the account's, and the account is not disabled.

    Both may change while a password is verified, which takes time.
    """
    now = require_account(connection, row["name"])
    return not now["disabled_at"] and now["password"] == row["password"]


def is_local_login_disabled(row: Row, web: Web) -> bool:
    """Return whether a local account cannot log in because logins come from the provider."""
    return web.single_sign_on_only and not row["subject"] and row["name"] != web.emergency_account


def require_local_login(name: str, web: Web) -> None:
    """Raise AuthenticationFailed if a local account of this name cannot log in."""
    if is_local_login_disabled({"subject": "", "name": name}, web):
        raise AuthenticationFailed(PASSWORDS_DISABLED)


def has_active_admin(connection: sql.Connection, except_account_id: str = "") -> bool:
    """Return whether there is an admin who can log in, apart from the account with this id."""
    query = (
        sql.select(accounts.c.name).where(_active_admin, accounts.c.account_id != except_account_id).limit(1)
    )
    return connection.scalar(query) is not None


def add_account(connection: sql.Connection, now: datetime, name: str, role: Role, **more: Any) -> Row:
    """Create an account and return its row. Raise FingerprintError if the name is taken or ever was."""
    if find_account(connection, name):
        raise FingerprintError(f"there is an account {name} already: choose another name")
    row = {"account_id": uuid4().hex, "name": name, "role": role, "created_at": now} | more
    connection.execute(sql.insert(accounts).values(**row))
    return require_account(connection, name)


def update_account(connection: sql.Connection, row: Row, **new: Any) -> None:
    """Set columns of an account."""
    connection.execute(sql.update(accounts).where(accounts.c.account_id == row["account_id"]).values(**new))


def delete_account_sessions(connection: sql.Connection, account_id: str, except_digest: str = "") -> int:
    """End an account's pending logins and its sessions, except the one of this digest; return the number of ended sessions."""
    connection.execute(sql.delete(pending_logins).where(pending_logins.c.account_id == account_id))
    those = (sessions.c.account_id == account_id) & (sessions.c.digest != except_digest)
    return connection.execute(sql.delete(sessions).where(those)).rowcount


def revoke_account_tokens(connection: sql.Connection, now: datetime, account_id: str) -> int:
    """Revoke all valid tokens of an account; return their number."""
    live = (tokens.c.account_id == account_id) & tokens.c.revoked_at.is_(None) & (tokens.c.expires_at > now)
    return connection.execute(sql.update(tokens).where(live).values(revoked_at=now)).rowcount


def insert_invitation(connection: sql.Connection, now: datetime, name: str) -> str:
    """Return the secret of a new invitation; earlier invitations of the name stay valid."""
    secret = secret_hashes.generate_secret()
    row = {
        "digest": secret_hashes.secret_digest(secret),
        "name": name,
        "expires_at": now + INVITATION_LIFETIME,
    }
    connection.execute(sql.insert(invitations).values(**row))
    return secret


def find_invitation(connection: sql.Connection, now: datetime, secret: str) -> Invitation | None:
    """Return an invitation by its secret, None if it expired. The first admin's expires as soon as there is an admin."""
    query = sql.select(invitations).where(invitations.c.digest == secret_hashes.secret_digest(secret))
    row = connection.execute(query).mappings().first()
    if row is None or row["expires_at"] <= now or (not row["name"] and has_active_admin(connection)):
        return None
    return Invitation(row["name"], row["expires_at"])


def delete_invitation(connection: sql.Connection, name: str) -> None:
    """Delete the invitations of a name."""
    connection.execute(sql.delete(invitations).where(invitations.c.name == name))
