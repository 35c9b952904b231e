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
    Identity,
    Login,
    Person,
    Proof,
    Refused,
    Role,
    SecondFactorNeeded,
    Session,
    Where,
    fitting_name,
)
from fingerprint.core.alert import NotThere
from fingerprint.core.sanitize import storable
from fingerprint.core.settings import Web
from fingerprint.store import account_rows as accounts
from fingerprint.store import second_factors as factors
from fingerprint.store import secret_hashes as secrets_
from fingerprint.store.account_rows import Row
from fingerprint.store.account_tables import invitations, logins, persons, sessions
from fingerprint.store.audit import say

SEEN_SHARE = (
    20  # of the idle time a session may be seen before that is written down again: the clock is so exact
)
LOGIN = timedelta(minutes=10)  # that a second factor may take
LONGEST_AGENT = 300  # characters of what a browser says it is


def admit(
    connection: sql.Connection, now: datetime, row: Row, where: Where, web: Web
) -> str | SecondFactorNeeded:
    """Return a session's secret for whom a password is proven, or what else it takes."""
    if web.second_factor == "required" or factors.kinds(connection, row["person_id"]):
        secret = secrets_.new_secret()
        new = {"digest": secrets_.digest(secret), "person_id": row["person_id"], "expires_at": now + LOGIN}
        connection.execute(sql.insert(logins).values(**new))
        return SecondFactorNeeded(secret)
    return begin(connection, now, row, where, "password", web)


def begin(
    connection: sql.Connection,
    now: datetime,
    row: Row,
    where: Where,
    proof: Proof,
    web: Web,
    proven_at: datetime | None = None,
) -> str:
    """Return a new session's secret, and say it in the audit. All but a provider's word is a proof of this moment, unless
    `proven_at` says of which."""
    secret = secrets_.new_secret()
    new = {
        "digest": secrets_.digest(secret),
        "session_id": uuid4().hex,
        "person_id": row["person_id"],
        "created_at": now,
        "seen_at": now,
        "expires_at": now + timedelta(hours=web.session_hours),
        "address": storable(where.address)[:LONGEST_AGENT],
        "agent": storable(where.agent)[:LONGEST_AGENT],
        "proof": proof,
        "proven_at": proven_at if proof == "provider" else proven_at or now,
    }
    connection.execute(sql.insert(sessions).values(**new))
    accounts.change(connection, row, last_login=now)
    detail = {"issuer": row["issuer"]} if proof == "provider" else {"proof": proof}
    say(connection, now, row["name"], "person.login", row["name"], {"address": new["address"]} | detail)
    return secret


def alive(connection: sql.Connection, now: datetime, secret: str, web: Web) -> tuple[Person, bool] | None:
    """Whose session it is, and whether it is time to write down that it was seen."""
    idle = timedelta(hours=web.session_idle_hours)
    row = found(connection, now, secret, web)
    if row is None:
        return None
    return accounts.person_of(row), now - row["seen_at"] > idle / SEEN_SHARE


def found(connection: sql.Connection, now: datetime, secret: str, web: Web) -> Row | None:
    """A live session's row, with its person's."""
    kept = [column for column in sessions.columns if column.name not in persons.columns]
    query = sql.select(persons, *kept).join(sessions, sessions.c.person_id == persons.c.person_id)
    query = query.add_columns(sessions.c.created_at.label("begun_at"))
    idle = timedelta(hours=web.session_idle_hours)
    lasts = (
        (sessions.c.expires_at > now) & (sessions.c.seen_at > now - idle) & persons.c.disabled_at.is_(None)
    )
    row = (
        connection.execute(query.where(sessions.c.digest == secrets_.digest(secret), lasts))
        .mappings()
        .first()
    )
    if row is None or accounts.shut_out(dict(row), web):
        return None
    too_weak = web.second_factor == "required" and row["proof"] == "password"
    return None if too_weak else dict(row)


def seen(connection: sql.Connection, now: datetime, secret: str) -> None:
    mine = sessions.c.digest == secrets_.digest(secret)
    connection.execute(sql.update(sessions).where(mine).values(seen_at=now))


def session_of(row: Row) -> Session:
    names = ("session_id", "seen_at", "expires_at", "address", "agent", "proof", "proven_at")
    kept = {name: row[name] for name in names}
    return Session(owner=row["name"], created_at=row["begun_at"], **kept)


def listed(connection: sql.Connection, now: datetime, name: str, web: Web) -> list[Session]:
    """Return a person's live sessions, the one seen last first."""
    row = accounts.there(connection, name)
    idle = now - timedelta(hours=web.session_idle_hours)
    mine = (sessions.c.person_id == row["person_id"]) & (sessions.c.expires_at > now)
    query = sql.select(sessions, sessions.c.created_at.label("begun_at"))
    query = query.where(mine, sessions.c.seen_at > idle).order_by(sessions.c.seen_at.desc())
    return [session_of(dict(each) | {"name": row["name"]}) for each in connection.execute(query).mappings()]


def proven(connection: sql.Connection, now: datetime, digest: str) -> None:
    """Its owner has just shown who they are."""
    mine = sessions.c.digest == digest
    connection.execute(sql.update(sessions).where(mine).values(proven_at=now, challenge=""))


def end(connection: sql.Connection, now: datetime, secret: str) -> None:
    """Log out."""
    mine = sessions.c.digest == secrets_.digest(secret)
    whose = sql.select(persons.c.name).join(sessions, sessions.c.person_id == persons.c.person_id).where(mine)
    name = connection.scalar(whose)
    if name:
        connection.execute(sql.delete(sessions).where(mine))
        say(connection, now, name, "person.logout", name)


def end_one(connection: sql.Connection, now: datetime, session_id: str, by: str, owner: str | None) -> None:
    """End a session by its id. NotThere where there is none, or, with `owner`, none of that person."""
    query = sql.select(persons.c.name).join(sessions, sessions.c.person_id == persons.c.person_id)
    whose = connection.scalar(query.where(sessions.c.session_id == storable(session_id)))
    if whose is None or (owner is not None and whose != owner):
        raise NotThere("there is no such session")
    connection.execute(sql.delete(sessions).where(sessions.c.session_id == session_id))
    say(connection, now, by, "person.end_session", whose, {"session": session_id})


def login_of(connection: sql.Connection, now: datetime, secret: str) -> Row | None:
    """Whose login is under way, as their row, with the challenge it was given; None for one that is over."""
    query = sql.select(persons, logins.c.challenge).join(persons, logins.c.person_id == persons.c.person_id)
    lasts = (logins.c.expires_at > now) & persons.c.disabled_at.is_(None)
    row = (
        connection.execute(query.where(logins.c.digest == secrets_.digest(secret), lasts)).mappings().first()
    )
    return dict(row) if row else None


def awaited(connection: sql.Connection, row: Row) -> Login:
    """What a login under way still takes."""
    kinds = factors.kinds(connection, row["person_id"])
    return Login(row["name"], kinds, factors.recovery_left(connection, row["person_id"]) > 0)


def end_login(connection: sql.Connection, secret: str) -> None:
    connection.execute(sql.delete(logins).where(logins.c.digest == secrets_.digest(secret)))


def challenge(connection: sql.Connection, secret: str, asked: str) -> None:
    """Keep what a passkey is to sign, with the session or the login under way that asked; empty: it was used."""
    for table in (sessions, logins):
        mine = table.c.digest == secrets_.digest(secret)
        connection.execute(sql.update(table).where(mine).values(challenge=asked))


def vouched(
    connection: sql.Connection,
    now: datetime,
    identity: Identity,
    default: Role | None,
    where: Where,
    web: Web,
) -> str:
    """A session for whom a provider vouches. The provider's subject is the person: a name or an address that is the same as
    somebody's is nothing."""
    row = _of_provider(connection, identity) or _arrived(connection, now, identity, default)
    if row["disabled_at"]:
        raise Refused("this account is disabled: ask an admin")
    if identity.role and identity.role != row["role"]:
        accounts.change(connection, row, role=identity.role)
        accounts.end_sessions(connection, row["person_id"])
        detail = {"from": row["role"], "to": identity.role}
        say(connection, now, identity.issuer, "person.role", row["name"], detail)
    return begin(connection, now, row, where, "provider", web, identity.authenticated_at)


def forget(connection: sql.Connection, now: datetime, web: Web) -> None:
    """Drop what is over."""
    idle = now - timedelta(hours=web.session_idle_hours)
    over = (sessions.c.expires_at <= now) | (sessions.c.seen_at <= idle)
    connection.execute(sql.delete(sessions).where(over))
    for table in (invitations, logins):
        connection.execute(sql.delete(table).where(table.c.expires_at <= now))


def _of_provider(connection: sql.Connection, identity: Identity) -> Row | None:
    mine = (persons.c.issuer == identity.issuer) & (persons.c.subject == identity.subject)
    row = connection.execute(sql.select(persons).where(mine, persons.c.subject != "")).mappings().first()
    return dict(row) if row else None


def _arrived(connection: sql.Connection, now: datetime, identity: Identity, default: Role | None) -> Row:
    """A first login makes an account."""
    role = identity.role or default
    if role is None:
        raise Refused("this account has no role here: ask an admin")
    wanted = fitting_name(identity.name)
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in range(1, 10_000))
    name = next(each for each in names if not accounts.found(connection, each))
    row = accounts.add(connection, now, name, role, issuer=identity.issuer, subject=identity.subject)
    say(connection, now, identity.issuer, "person.create", name, {"role": role})
    return row
