"""Rows of pending logins, which have the right password and still need a second factor.

Example:
    >>> row = require_pending_login(connection, now, secret)
    >>> remaining_login_steps(connection, row).kinds
    ('code',)
"""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sql

from fingerprint.core.account import ClientInfo, PendingLogin, SecondFactorNeeded
from fingerprint.core.settings import Web
from fingerprint.store import factor_rows, secret_hashes, sessions
from fingerprint.store.account_rows import raise_refused
from fingerprint.store.schema import Row, accounts, pending_logins

LOGIN_LIFETIME = timedelta(minutes=10)  # time to give the second factor


def begin_login(
    connection: sql.Connection, now: datetime, row: Row, where: ClientInfo, web: Web
) -> str | SecondFactorNeeded:
    """Begin a session after a right password and return its secret; or begin a pending login if a second factor is needed."""
    if web.second_factor == "required" or factor_rows.read_factor_kinds(connection, row["account_id"]):
        secret = secret_hashes.generate_secret()
        new = {
            "digest": secret_hashes.secret_digest(secret),
            "account_id": row["account_id"],
            "expires_at": now + LOGIN_LIFETIME,
        }
        connection.execute(sql.insert(pending_logins).values(**new))
        return SecondFactorNeeded(secret)
    return sessions.begin_session(connection, now, row, where, "password", web)


def find_pending_login(connection: sql.Connection, now: datetime, secret: str) -> Row | None:
    """Return the account's row and the challenge of a pending login; None if it expired."""
    query = sql.select(accounts, pending_logins.c.challenge).join(
        accounts, pending_logins.c.account_id == accounts.c.account_id
    )
    lasts = (pending_logins.c.expires_at > now) & accounts.c.disabled_at.is_(None)
    this_login = pending_logins.c.digest == secret_hashes.secret_digest(secret)
    row = connection.execute(query.where(this_login, lasts)).mappings().first()
    return dict(row) if row else None


def require_pending_login(connection: sql.Connection, now: datetime, secret: str) -> Row:
    """Return the row of a pending login as `find_pending_login` does. Raise AuthenticationFailed without one."""
    return find_pending_login(connection, now, secret) or raise_refused(sessions.LOGIN_EXPIRED)


def remaining_login_steps(connection: sql.Connection, row: Row) -> PendingLogin:
    """Return the remaining steps of a pending login."""
    return PendingLogin(row["name"], factor_rows.read_factor_kinds(connection, row["account_id"]))


def delete_pending_login(connection: sql.Connection, secret: str) -> None:
    """Delete a pending login that was finished."""
    this_login = pending_logins.c.digest == secret_hashes.secret_digest(secret)
    connection.execute(sql.delete(pending_logins).where(this_login))


def delete_expired(connection: sql.Connection, now: datetime) -> None:
    """Delete pending logins whose second factor never came."""
    connection.execute(sql.delete(pending_logins).where(pending_logins.c.expires_at <= now))
