"""Sessions and pending logins: how they begin, with a password, a second factor, an invitation or a provider, and when they end.

Example:
    >>> secret = begin_session(connection, now, row, where, "password", web)
    >>> authenticate_session(connection, now, secret, web)[0].name
    'maria'
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import sqlalchemy as sql

from fingerprint.core.account import (
    Account,
    AuthenticationFailed,
    ClientInfo,
    ExternalIdentity,
    LoginSession,
    PendingLogin,
    ProofKind,
    Role,
    SecondFactorNeeded,
    derive_name,
)
from fingerprint.core.alert import NotFound
from fingerprint.core.sanitize import storable
from fingerprint.core.settings import Web
from fingerprint.store import account_rows, second_factors, secret_hashes
from fingerprint.store.account_rows import Row
from fingerprint.store.audit import add_audit_entry
from fingerprint.store.schema import accounts, invitations, pending_logins, sessions

SEEN_INTERVAL_DIVISOR = (
    20  # of the idle time a session may be seen before that is written down again: the clock is so exact
)
LOGIN_LIFETIME = timedelta(minutes=10)  # that a second factor may take
MAX_USER_AGENT_LENGTH = 300  # characters of what a browser says it is


def begin_login(
    connection: sql.Connection, now: datetime, row: Row, where: ClientInfo, web: Web
) -> str | SecondFactorNeeded:
    """Return a session's secret for whom a password is proven, or what else it takes."""
    if web.second_factor == "required" or second_factors.read_factor_kinds(connection, row["account_id"]):
        secret = secret_hashes.generate_secret()
        new = {
            "digest": secret_hashes.secret_digest(secret),
            "account_id": row["account_id"],
            "expires_at": now + LOGIN_LIFETIME,
        }
        connection.execute(sql.insert(pending_logins).values(**new))
        return SecondFactorNeeded(secret)
    return begin_session(connection, now, row, where, "password", web)


def begin_session(
    connection: sql.Connection,
    now: datetime,
    row: Row,
    where: ClientInfo,
    proof: ProofKind,
    web: Web,
    proven_at: datetime | None = None,
) -> str:
    """Return a new session's secret, and say it in the audit. All but a provider's word is a proof of this moment, unless
    `proven_at` says of which."""
    secret = secret_hashes.generate_secret()
    new = {
        "digest": secret_hashes.secret_digest(secret),
        "session_id": uuid4().hex,
        "account_id": row["account_id"],
        "created_at": now,
        "seen_at": now,
        "expires_at": now + timedelta(hours=web.session_max_hours),
        "address": storable(where.address)[:MAX_USER_AGENT_LENGTH],
        "agent": storable(where.agent)[:MAX_USER_AGENT_LENGTH],
        "proof": proof,
        "proven_at": proven_at if proof == "provider" else proven_at or now,
    }
    connection.execute(sql.insert(sessions).values(**new))
    account_rows.update_account(connection, row, last_login=now)
    detail = {"issuer": row["issuer"]} if proof == "provider" else {"proof": proof}
    add_audit_entry(
        connection, now, row["name"], "account.login", row["name"], {"address": new["address"]} | detail
    )
    return secret


def authenticate_session(
    connection: sql.Connection, now: datetime, secret: str, web: Web
) -> tuple[Account, bool] | None:
    """Return the account of a live session, and whether it is time to record that it was used."""
    idle = timedelta(hours=web.session_idle_hours)
    row = find_session(connection, now, secret, web)
    if row is None:
        return None
    return account_rows.to_account(row), now - row["seen_at"] > idle / SEEN_INTERVAL_DIVISOR


def find_session(connection: sql.Connection, now: datetime, secret: str, web: Web) -> Row | None:
    """Return the row of a live session joined with its account's."""
    kept = [column for column in sessions.columns if column.name not in accounts.columns]
    query = sql.select(accounts, *kept).join(sessions, sessions.c.account_id == accounts.c.account_id)
    query = query.add_columns(sessions.c.created_at.label("begun_at"))
    idle = timedelta(hours=web.session_idle_hours)
    lasts = (
        (sessions.c.expires_at > now) & (sessions.c.seen_at > now - idle) & accounts.c.disabled_at.is_(None)
    )
    row = (
        connection.execute(query.where(sessions.c.digest == secret_hashes.secret_digest(secret), lasts))
        .mappings()
        .first()
    )
    if row is None or account_rows.is_local_login_disabled(dict(row), web):
        return None
    too_weak = web.second_factor == "required" and row["proof"] == "password"
    return None if too_weak else dict(row)


def mark_session_seen(connection: sql.Connection, now: datetime, secret: str) -> None:
    """Record that a session was used now."""
    mine = sessions.c.digest == secret_hashes.secret_digest(secret)
    connection.execute(sql.update(sessions).where(mine).values(seen_at=now))


def to_session(row: Row) -> LoginSession:
    names = ("session_id", "seen_at", "expires_at", "address", "agent", "proof", "proven_at")
    kept = {name: row[name] for name in names}
    return LoginSession(owner=row["name"], created_at=row["begun_at"], **kept)


def read_sessions(connection: sql.Connection, now: datetime, name: str, web: Web) -> list[LoginSession]:
    """Return a person's live sessions, the one seen last first."""
    row = account_rows.require_account(connection, name)
    idle = now - timedelta(hours=web.session_idle_hours)
    mine = (sessions.c.account_id == row["account_id"]) & (sessions.c.expires_at > now)
    query = sql.select(sessions, sessions.c.created_at.label("begun_at"))
    query = query.where(mine, sessions.c.seen_at > idle).order_by(sessions.c.seen_at.desc())
    return [to_session(dict(each) | {"name": row["name"]}) for each in connection.execute(query).mappings()]


def mark_reauthenticated(connection: sql.Connection, now: datetime, digest: str) -> None:
    """Record that the owner of a session has just proved their identity again."""
    mine = sessions.c.digest == digest
    connection.execute(sql.update(sessions).where(mine).values(proven_at=now, challenge=""))


def end_session_by_secret(connection: sql.Connection, now: datetime, secret: str) -> None:
    """Log out: end a session by its secret; an unknown one is no error."""
    mine = sessions.c.digest == secret_hashes.secret_digest(secret)
    whose = (
        sql.select(accounts.c.name).join(sessions, sessions.c.account_id == accounts.c.account_id).where(mine)
    )
    name = connection.scalar(whose)
    if name:
        connection.execute(sql.delete(sessions).where(mine))
        add_audit_entry(connection, now, name, "account.logout", name)


def end_session_by_id(
    connection: sql.Connection, now: datetime, session_id: str, by: str, owner: str | None
) -> None:
    """End a session by its id. Raise NotFound where there is none, or, with `owner`, none of that account."""
    query = sql.select(accounts.c.name).join(sessions, sessions.c.account_id == accounts.c.account_id)
    whose = connection.scalar(query.where(sessions.c.session_id == storable(session_id)))
    if whose is None or (owner is not None and whose != owner):
        raise NotFound("there is no such session")
    connection.execute(sql.delete(sessions).where(sessions.c.session_id == session_id))
    add_audit_entry(connection, now, by, "account.end_session", whose, {"session": session_id})


def find_pending_login(connection: sql.Connection, now: datetime, secret: str) -> Row | None:
    """Return the account's row of a pending login with its challenge; None for one that expired."""
    query = sql.select(accounts, pending_logins.c.challenge).join(
        accounts, pending_logins.c.account_id == accounts.c.account_id
    )
    lasts = (pending_logins.c.expires_at > now) & accounts.c.disabled_at.is_(None)
    row = (
        connection.execute(query.where(pending_logins.c.digest == secret_hashes.secret_digest(secret), lasts))
        .mappings()
        .first()
    )
    return dict(row) if row else None


def remaining_login_steps(connection: sql.Connection, row: Row) -> PendingLogin:
    """Return what a pending login still needs."""
    kinds = second_factors.read_factor_kinds(connection, row["account_id"])
    return PendingLogin(
        row["name"], kinds, second_factors.count_recovery_codes(connection, row["account_id"]) > 0
    )


def delete_pending_login(connection: sql.Connection, secret: str) -> None:
    connection.execute(
        sql.delete(pending_logins).where(pending_logins.c.digest == secret_hashes.secret_digest(secret))
    )


def save_challenge(connection: sql.Connection, secret: str, asked: str) -> None:
    """Save the challenge that a passkey is to sign with the session or pending login; empty once it was used."""
    for table in (sessions, pending_logins):
        mine = table.c.digest == secret_hashes.secret_digest(secret)
        connection.execute(sql.update(table).where(mine).values(challenge=asked))


def log_in_with_identity(
    connection: sql.Connection,
    now: datetime,
    identity: ExternalIdentity,
    default: Role | None,
    where: ClientInfo,
    web: Web,
) -> str:
    """Begin a session for an identity of a provider, and return its secret.

    Issuer and subject identify the account; an equal name or address means nothing.
    """
    row = _find_provider_account(connection, identity) or _create_provider_account(
        connection, now, identity, default
    )
    if row["disabled_at"]:
        raise AuthenticationFailed("this account is disabled: ask an admin")
    if identity.role and identity.role != row["role"]:
        account_rows.update_account(connection, row, role=identity.role)
        account_rows.delete_account_sessions(connection, row["account_id"])
        detail = {"from": row["role"], "to": identity.role}
        add_audit_entry(connection, now, identity.issuer, "account.role", row["name"], detail)
    return begin_session(connection, now, row, where, "provider", web, identity.authenticated_at)


def delete_expired_sessions(connection: sql.Connection, now: datetime, web: Web) -> None:
    """Delete expired sessions, pending logins and invitations."""
    idle = now - timedelta(hours=web.session_idle_hours)
    over = (sessions.c.expires_at <= now) | (sessions.c.seen_at <= idle)
    connection.execute(sql.delete(sessions).where(over))
    for table in (invitations, pending_logins):
        connection.execute(sql.delete(table).where(table.c.expires_at <= now))


def _find_provider_account(connection: sql.Connection, identity: ExternalIdentity) -> Row | None:
    mine = (accounts.c.issuer == identity.issuer) & (accounts.c.subject == identity.subject)
    row = connection.execute(sql.select(accounts).where(mine, accounts.c.subject != "")).mappings().first()
    return dict(row) if row else None


def _create_provider_account(
    connection: sql.Connection, now: datetime, identity: ExternalIdentity, default: Role | None
) -> Row:
    """Create an account at the first login of a provider's identity."""
    role = identity.role or default
    if role is None:
        raise AuthenticationFailed("this account has no role here: ask an admin")
    wanted = derive_name(identity.name)
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in range(1, 10_000))
    name = next(each for each in names if not account_rows.find_account(connection, each))
    row = account_rows.add_account(
        connection, now, name, role, issuer=identity.issuer, subject=identity.subject
    )
    add_audit_entry(connection, now, identity.issuer, "account.create", name, {"role": role})
    return row
