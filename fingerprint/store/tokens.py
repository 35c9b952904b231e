"""Access tokens, which programs send instead of a password; stored as digests.

Example:
    >>> token, secret = store.tokens.create("maria", "our SIEM", ("read",), now + timedelta(days=90), by="maria")
    >>> secret
    'fpt_Jt4...'
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sql

from fingerprint.core.account import MAX_TOKEN_DAYS, SCOPES, AccessToken, Account, Scope, role_includes
from fingerprint.core.errors import FingerprintError, NotFound
from fingerprint.core.sanitize import storable
from fingerprint.core.settings import Web
from fingerprint.store import account_rows, secret_hashes
from fingerprint.store.account_rows import AccountTable
from fingerprint.store.audit import add_audit_entry
from fingerprint.store.database import Locking, reads, writes
from fingerprint.store.schema import Row, accounts, tokens

TOKEN_LOGIN_DAYS = 30.0  # a token works for so long after the last login of an owner with single sign-on
TOKEN_PREFIX = "fpt_"  # noqa: S105 - the public beginning of every token
MAX_TOKENS = 50  # valid ones of one person
MAX_LABEL_LENGTH = 100  # characters
LAST_USED_INTERVAL = timedelta(minutes=10)  # least time between two updates of `last_used`

_token_with_owner = sql.select(tokens, accounts.c.name.label("owner")).join(
    accounts, accounts.c.account_id == tokens.c.account_id
)


class SqlTokenRepository(AccountTable):
    """Access tokens; each change and its line in the audit are one transaction."""

    @writes(Locking.ACCOUNTS)
    def create(
        self,
        connection: sql.Connection,
        owner: str,
        label: str,
        scopes: Sequence[Scope],
        expires_at: datetime,
        by: str,
    ) -> tuple[AccessToken, str]:
        """Create a token; return it with its secret, which is never shown again."""
        row, now = account_rows.require_account(connection, owner), self._now()
        _check_new_token(account_rows.to_account(row), now, label, scopes, expires_at)
        if _count_active_tokens(connection, row["account_id"], now) >= MAX_TOKENS:
            raise FingerprintError(f"{owner} has {MAX_TOKENS} tokens already: revoke one first")
        secret, token_id = secret_hashes.generate_secret(TOKEN_PREFIX), uuid4().hex
        ordered = [scope for scope in SCOPES if scope in scopes]
        named = storable(label.strip())
        new = {"token_id": token_id, "label": named, "created_at": now, "expires_at": expires_at}
        new |= {
            "digest": secret_hashes.secret_digest(secret),
            "account_id": row["account_id"],
            "scopes": ordered,
        }
        connection.execute(sql.insert(tokens).values(**new))
        detail = {"owner": owner, "scopes": ordered, "label": named}
        add_audit_entry(connection, now, by, "token.create", token_id, detail)
        return _find_token(connection, token_id), secret

    @reads
    def list_all(self, connection: sql.Connection, owner: str | None = None) -> list[AccessToken]:
        """Return the tokens of one account, or all; the newest first."""
        query = _token_with_owner.order_by(tokens.c.created_at.desc(), tokens.c.token_id)
        query = query if owner is None else query.where(accounts.c.name == owner)
        return [_to_token(row) for row in connection.execute(query).mappings()]

    @writes(Locking.ACCOUNTS)
    def revoke(self, connection: sql.Connection, token_id: str, by: str, owner: str | None = None) -> None:
        """Revoke a token; a second time changes nothing. Raise NotFound if there is none, or if it is not `owner`'s."""
        token, now = _find_token(connection, token_id, owner), self._now()
        if token.revoked_at is None:
            this_token = tokens.c.token_id == token.token_id
            connection.execute(sql.update(tokens).where(this_token).values(revoked_at=now))
            add_audit_entry(connection, now, by, "token.revoke", token_id, {"owner": token.owner})

    def authenticate(self, secret: str) -> tuple[Account, AccessToken] | None:
        """Return the account and the token of a secret, and record that the token was used.

        Return None for an expired or revoked token, and for an account that is disabled or has not logged in at its provider
        recently.
        """
        now = self._now()
        found = self._session.read(lambda connection: _authenticate(connection, now, secret, self._web))
        if found and (found[1].last_used is None or now - found[1].last_used > LAST_USED_INTERVAL):
            self._try_write(lambda connection: _mark_used(connection, now, found[1]))
        return found


def _authenticate(
    connection: sql.Connection, now: datetime, secret: str, web: Web
) -> tuple[Account, AccessToken] | None:
    columns = [column.label(f"person_{column.name}") for column in accounts.columns]
    alive = (tokens.c.revoked_at.is_(None)) & (tokens.c.expires_at > now) & (accounts.c.disabled_at.is_(None))
    query = _token_with_owner.add_columns(*columns).where(
        tokens.c.digest == secret_hashes.secret_digest(secret), alive
    )
    row = connection.execute(query).mappings().first()
    if row is None:
        return None
    owner = {column.name: row[f"person_{column.name}"] for column in accounts.columns}
    if account_rows.is_local_login_disabled(owner, web) or (
        owner["subject"] and _identity_is_stale(owner, now)
    ):
        return None
    return account_rows.to_account(owner), _to_token(row)


def _mark_used(connection: sql.Connection, now: datetime, token: AccessToken) -> None:
    connection.execute(sql.update(tokens).where(tokens.c.token_id == token.token_id).values(last_used=now))


def _to_token(row: Any) -> AccessToken:
    names = ("token_id", "owner", "label", "created_at", "expires_at", "last_used", "revoked_at")
    return AccessToken(**{name: row[name] for name in names}, scopes=tuple(row["scopes"]))


def _find_token(connection: sql.Connection, token_id: str, owner: str | None = None) -> AccessToken:
    """Return a token, or one of `owner`. Raise NotFound without one."""
    query = _token_with_owner.where(tokens.c.token_id == storable(token_id))
    query = query if owner is None else query.where(accounts.c.name == owner)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound("there is no such token")
    return _to_token(row)


def _identity_is_stale(owner: Row, now: datetime) -> bool:
    """Return whether the last login at the provider is so long ago that the account there may have been closed since."""
    return owner["last_login"] is None or now - owner["last_login"] >= timedelta(days=TOKEN_LOGIN_DAYS)


def _count_active_tokens(connection: sql.Connection, account_id: str, now: datetime) -> int:
    those = (tokens.c.account_id == account_id) & tokens.c.revoked_at.is_(None) & (tokens.c.expires_at > now)
    return connection.scalar(sql.select(sql.func.count()).select_from(tokens).where(those)) or 0


def _check_new_token(
    owner: Account, now: datetime, label: str, scopes: Sequence[Scope], expires_at: datetime
) -> None:
    if not 0 < len(label.strip()) <= MAX_LABEL_LENGTH:
        raise FingerprintError(f"say what the token is for, in 1 to {MAX_LABEL_LENGTH} characters")
    if not scopes or not set(scopes) <= set(SCOPES):
        raise FingerprintError("a token needs a scope: read, triage, engineer or admin")
    if beyond := [scope for scope in scopes if not role_includes(owner.role, SCOPES[scope])]:
        raise FingerprintError(
            f"{owner.name} has the role {owner.role}: a token of theirs cannot have {beyond[0]}"
        )
    if not now < expires_at <= now + timedelta(days=MAX_TOKEN_DAYS):
        raise FingerprintError(f"a token expires within {MAX_TOKEN_DAYS} days from now")
