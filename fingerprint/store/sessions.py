"""Sessions and logins under way: how people get one, with a password, a second factor, a link or a provider's word, and when it
is over.

Example:
    >>> secret = begin(connection, now, row, where, "password", web)
    >>> alive(connection, now, secret, web)[0].name
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
from fingerprint.store import account_rows as accounts
from fingerprint.store import second_factors as factors
from fingerprint.store import secret_hashes as secrets_
from fingerprint.store.account_rows import Row
from fingerprint.store.account_tables import invitations, logins, persons, sessions
from fingerprint.store.audit import add_audit_entry

SEEN_INTERVAL_DIVISOR = (
    20  # of the idle time a session may be seen before that is written down again: the clock is so exact
)
LOGIN_LIFETIME = timedelta(minutes=10)  # that a second factor may take
MAX_USER_AGENT_LENGTH = 300  # characters of what a browser says it is


def begin_login(
    connection: sql.Connection, now: datetime, row: Row, where: ClientInfo, web: Web
) -> str | SecondFactorNeeded:
    """Return a session's secret for whom a password is proven, or what else it takes."""
    if web.second_factor == "required" or factors.read_factor_kinds(connection, row["person_id"]):
        secret = secrets_.generate_secret()
        new = {
            "digest": secrets_.secret_digest(secret),
            "person_id": row["person_id"],
            "expires_at": now + LOGIN_LIFETIME,
        }
        connection.execute(sql.insert(logins).values(**new))
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
    secret = secrets_.generate_secret()
    new = {
        "digest": secrets_.secret_digest(secret),
        "session_id": uuid4().hex,
        "person_id": row["person_id"],
        "created_at": now,
        "seen_at": now,
        "expires_at": now + timedelta(hours=web.session_max_hours),
        "address": storable(where.address)[:MAX_USER_AGENT_LENGTH],
        "agent": storable(where.agent)[:MAX_USER_AGENT_LENGTH],
        "proof": proof,
        "proven_at": proven_at if proof == "provider" else proven_at or now,
    }
    connection.execute(sql.insert(sessions).values(**new))
    accounts.update_account(connection, row, last_login=now)
    detail = {"issuer": row["issuer"]} if proof == "provider" else {"proof": proof}
    add_audit_entry(
        connection, now, row["name"], "person.login", row["name"], {"address": new["address"]} | detail
    )
    return secret


def authenticate_session(
    connection: sql.Connection, now: datetime, secret: str, web: Web
) -> tuple[Account, bool] | None:
    """Whose session it is, and whether it is time to write down that it was seen."""
    idle = timedelta(hours=web.session_idle_hours)
    row = find_session(connection, now, secret, web)
    if row is None:
        return None
    return accounts.to_account(row), now - row["seen_at"] > idle / SEEN_INTERVAL_DIVISOR


def find_session(connection: sql.Connection, now: datetime, secret: str, web: Web) -> Row | None:
    """A live session's row, with its person's."""
    kept = [column for column in sessions.columns if column.name not in persons.columns]
    query = sql.select(persons, *kept).join(sessions, sessions.c.person_id == persons.c.person_id)
    query = query.add_columns(sessions.c.created_at.label("begun_at"))
    idle = timedelta(hours=web.session_idle_hours)
    lasts = (
        (sessions.c.expires_at > now) & (sessions.c.seen_at > now - idle) & persons.c.disabled_at.is_(None)
    )
    row = (
        connection.execute(query.where(sessions.c.digest == secrets_.secret_digest(secret), lasts))
        .mappings()
        .first()
    )
    if row is None or accounts.is_local_login_disabled(dict(row), web):
        return None
    too_weak = web.second_factor == "required" and row["proof"] == "password"
    return None if too_weak else dict(row)


def mark_session_seen(connection: sql.Connection, now: datetime, secret: str) -> None:
    mine = sessions.c.digest == secrets_.secret_digest(secret)
    connection.execute(sql.update(sessions).where(mine).values(seen_at=now))


def to_session(row: Row) -> LoginSession:
    names = ("session_id", "seen_at", "expires_at", "address", "agent", "proof", "proven_at")
    kept = {name: row[name] for name in names}
    return LoginSession(owner=row["name"], created_at=row["begun_at"], **kept)


def read_sessions(connection: sql.Connection, now: datetime, name: str, web: Web) -> list[LoginSession]:
    """Return a person's live sessions, the one seen last first."""
    row = accounts.require_account(connection, name)
    idle = now - timedelta(hours=web.session_idle_hours)
    mine = (sessions.c.person_id == row["person_id"]) & (sessions.c.expires_at > now)
    query = sql.select(sessions, sessions.c.created_at.label("begun_at"))
    query = query.where(mine, sessions.c.seen_at > idle).order_by(sessions.c.seen_at.desc())
    return [to_session(dict(each) | {"name": row["name"]}) for each in connection.execute(query).mappings()]


def mark_reauthenticated(connection: sql.Connection, now: datetime, digest: str) -> None:
    """Its owner has just shown who they are."""
    mine = sessions.c.digest == digest
    connection.execute(sql.update(sessions).where(mine).values(proven_at=now, challenge=""))


def end_session_by_secret(connection: sql.Connection, now: datetime, secret: str) -> None:
    """Log out."""
    mine = sessions.c.digest == secrets_.secret_digest(secret)
    whose = sql.select(persons.c.name).join(sessions, sessions.c.person_id == persons.c.person_id).where(mine)
    name = connection.scalar(whose)
    if name:
        connection.execute(sql.delete(sessions).where(mine))
        add_audit_entry(connection, now, name, "person.logout", name)


def end_session_by_id(
    connection: sql.Connection, now: datetime, session_id: str, by: str, owner: str | None
) -> None:
    """End a session by its id. NotThere where there is none, or, with `owner`, none of that person."""
    query = sql.select(persons.c.name).join(sessions, sessions.c.person_id == persons.c.person_id)
    whose = connection.scalar(query.where(sessions.c.session_id == storable(session_id)))
    if whose is None or (owner is not None and whose != owner):
        raise NotFound("there is no such session")
    connection.execute(sql.delete(sessions).where(sessions.c.session_id == session_id))
    add_audit_entry(connection, now, by, "person.end_session", whose, {"session": session_id})


def find_pending_login(connection: sql.Connection, now: datetime, secret: str) -> Row | None:
    """Whose login is under way, as their row, with the challenge it was given; None for one that is over."""
    query = sql.select(persons, logins.c.challenge).join(persons, logins.c.person_id == persons.c.person_id)
    lasts = (logins.c.expires_at > now) & persons.c.disabled_at.is_(None)
    row = (
        connection.execute(query.where(logins.c.digest == secrets_.secret_digest(secret), lasts))
        .mappings()
        .first()
    )
    return dict(row) if row else None


def remaining_login_steps(connection: sql.Connection, row: Row) -> PendingLogin:
    """What a login under way still takes."""
    kinds = factors.read_factor_kinds(connection, row["person_id"])
    return PendingLogin(row["name"], kinds, factors.count_recovery_codes(connection, row["person_id"]) > 0)


def delete_pending_login(connection: sql.Connection, secret: str) -> None:
    connection.execute(sql.delete(logins).where(logins.c.digest == secrets_.secret_digest(secret)))


def save_challenge(connection: sql.Connection, secret: str, asked: str) -> None:
    """Keep what a passkey is to sign, with the session or the login under way that asked; empty: it was used."""
    for table in (sessions, logins):
        mine = table.c.digest == secrets_.secret_digest(secret)
        connection.execute(sql.update(table).where(mine).values(challenge=asked))


def log_in_with_identity(
    connection: sql.Connection,
    now: datetime,
    identity: ExternalIdentity,
    default: Role | None,
    where: ClientInfo,
    web: Web,
) -> str:
    """A session for whom a provider vouches. The provider's subject is the person: a name or an address that is the same as
    somebody's is nothing."""
    row = _find_provider_account(connection, identity) or _create_provider_account(
        connection, now, identity, default
    )
    if row["disabled_at"]:
        raise AuthenticationFailed("this account is disabled: ask an admin")
    if identity.role and identity.role != row["role"]:
        accounts.update_account(connection, row, role=identity.role)
        accounts.delete_account_sessions(connection, row["person_id"])
        detail = {"from": row["role"], "to": identity.role}
        add_audit_entry(connection, now, identity.issuer, "person.role", row["name"], detail)
    return begin_session(connection, now, row, where, "provider", web, identity.authenticated_at)


def delete_expired_sessions(connection: sql.Connection, now: datetime, web: Web) -> None:
    """Drop what is over."""
    idle = now - timedelta(hours=web.session_idle_hours)
    over = (sessions.c.expires_at <= now) | (sessions.c.seen_at <= idle)
    connection.execute(sql.delete(sessions).where(over))
    for table in (invitations, logins):
        connection.execute(sql.delete(table).where(table.c.expires_at <= now))


def _find_provider_account(connection: sql.Connection, identity: ExternalIdentity) -> Row | None:
    mine = (persons.c.issuer == identity.issuer) & (persons.c.subject == identity.subject)
    row = connection.execute(sql.select(persons).where(mine, persons.c.subject != "")).mappings().first()
    return dict(row) if row else None


def _create_provider_account(
    connection: sql.Connection, now: datetime, identity: ExternalIdentity, default: Role | None
) -> Row:
    """A first login makes an account."""
    role = identity.role or default
    if role is None:
        raise AuthenticationFailed("this account has no role here: ask an admin")
    wanted = derive_name(identity.name)
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in range(1, 10_000))
    name = next(each for each in names if not accounts.find_account(connection, each))
    row = accounts.add_account(connection, now, name, role, issuer=identity.issuer, subject=identity.subject)
    add_audit_entry(connection, now, identity.issuer, "person.create", name, {"role": role})
    return row
