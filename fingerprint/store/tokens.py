"""Tokens: what programs show instead of a password, kept as digests.

Example:
    >>> token, secret = make(connection, now, "maria", "our SIEM", ("read",), now + timedelta(days=90), by="maria")
    >>> secret
    'fpt_Jt4...'
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sql

from fingerprint.core.account import LONGEST_TOKEN_DAYS, SCOPES, Person, Scope, Token, may
from fingerprint.core.alert import FingerprintError, NotThere
from fingerprint.core.sanitize import storable
from fingerprint.core.settings import Web
from fingerprint.store import account_rows as accounts
from fingerprint.store import secret_hashes as secrets_
from fingerprint.store.account_tables import persons, tokens
from fingerprint.store.audit import say

PREFIX = "fpt_"
MOST = 50  # that are alive, of one person
LONGEST_LABEL = 100  # characters
USED_EVERY = timedelta(minutes=10)  # that `last_used` is written down

_row = sql.select(tokens, persons.c.name.label("owner")).join(
    persons, persons.c.person_id == tokens.c.person_id
)


def token_of(row: Any) -> Token:
    names = ("token_id", "owner", "label", "created_at", "expires_at", "last_used", "revoked_at")
    return Token(**{name: row[name] for name in names}, scopes=tuple(row["scopes"]))


def make(
    connection: sql.Connection,
    now: datetime,
    owner: str,
    label: str,
    scopes: Sequence[Scope],
    expires_at: datetime,
    by: str,
) -> tuple[Token, str]:
    """A token, and its secret for once."""
    row = accounts.there(connection, owner)
    _check(accounts.person_of(row), now, label, scopes, expires_at)
    if _alive(connection, row["person_id"], now) >= MOST:
        raise FingerprintError(f"{owner} has {MOST} tokens already: revoke one first")
    secret, token_id = secrets_.new_secret(PREFIX), uuid4().hex
    ordered = [scope for scope in SCOPES if scope in scopes]
    named = storable(label.strip())
    new = {"token_id": token_id, "label": named, "created_at": now, "expires_at": expires_at}
    new |= {"digest": secrets_.digest(secret), "person_id": row["person_id"], "scopes": ordered}
    connection.execute(sql.insert(tokens).values(**new))
    say(connection, now, by, "token.create", token_id, {"owner": owner, "scopes": ordered, "label": named})
    return of_id(connection, token_id), secret


def of_id(connection: sql.Connection, token_id: str, owner: str | None = None) -> Token:
    query = _row.where(tokens.c.token_id == storable(token_id))
    query = query if owner is None else query.where(persons.c.name == owner)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise NotThere("there is no such token")
    return token_of(row)


def listed(connection: sql.Connection, owner: str | None) -> list[Token]:
    """The newest first."""
    query = _row.order_by(tokens.c.created_at.desc(), tokens.c.token_id)
    query = query if owner is None else query.where(persons.c.name == owner)
    return [token_of(row) for row in connection.execute(query).mappings()]


def bearer(connection: sql.Connection, now: datetime, secret: str, web: Web) -> tuple[Person, Token] | None:
    """Whose token it is, if it is alive, its owner is not disabled, and their provider vouched for them of late."""
    columns = [column.label(f"person_{column.name}") for column in persons.columns]
    alive = (tokens.c.revoked_at.is_(None)) & (tokens.c.expires_at > now) & (persons.c.disabled_at.is_(None))
    query = _row.add_columns(*columns).where(tokens.c.digest == secrets_.digest(secret), alive)
    row = connection.execute(query).mappings().first()
    if row is None:
        return None
    owner = {column.name: row[f"person_{column.name}"] for column in persons.columns}
    if accounts.shut_out(owner, web) or (owner["subject"] and _long_away(owner, now, web)):
        return None
    return accounts.person_of(owner), token_of(row)


def used(connection: sql.Connection, now: datetime, token: Token) -> None:
    connection.execute(sql.update(tokens).where(tokens.c.token_id == token.token_id).values(last_used=now))


def revoke(connection: sql.Connection, now: datetime, token_id: str, by: str, owner: str | None) -> None:
    """A second time changes nothing."""
    token = of_id(connection, token_id, owner)
    if token.revoked_at is None:
        connection.execute(sql.update(tokens).where(tokens.c.token_id == token_id).values(revoked_at=now))
        say(connection, now, by, "token.revoke", token_id, {"owner": token.owner})


def _long_away(owner: accounts.Row, now: datetime, web: Web) -> bool:
    """Whether it is so long since the provider vouched for somebody that their account there may be closed."""
    return owner["last_login"] is None or now - owner["last_login"] >= timedelta(days=web.oidc.token_days)


def _alive(connection: sql.Connection, person_id: str, now: datetime) -> int:
    those = (tokens.c.person_id == person_id) & tokens.c.revoked_at.is_(None) & (tokens.c.expires_at > now)
    return connection.scalar(sql.select(sql.func.count()).select_from(tokens).where(those)) or 0


def _check(owner: Person, now: datetime, label: str, scopes: Sequence[Scope], expires_at: datetime) -> None:
    if not 0 < len(label.strip()) <= LONGEST_LABEL:
        raise FingerprintError(f"say what the token is for, in 1 to {LONGEST_LABEL} characters")
    if not scopes or not set(scopes) <= set(SCOPES):
        raise FingerprintError("a token needs a scope: read, triage, engineer or admin")
    if beyond := [scope for scope in scopes if not may(owner.role, SCOPES[scope])]:
        raise FingerprintError(
            f"{owner.name} has the role {owner.role}: a token of theirs cannot have {beyond[0]}"
        )
    if not now < expires_at <= now + timedelta(days=LONGEST_TOKEN_DAYS):
        raise FingerprintError(f"a token expires within {LONGEST_TOKEN_DAYS} days from now")
