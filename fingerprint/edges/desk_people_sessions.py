"""Sessions: how people get one, with a password, a link or a provider's word, and when it is over.

Example:
    >>> secret = begin(connection, now, row, web)
    >>> alive(connection, now, secret, web)[0].name
    'maria'
"""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sql

from fingerprint.edges import desk_people_accounts as accounts
from fingerprint.edges import desk_people_secrets as secrets_
from fingerprint.edges.desk_audit import say
from fingerprint.edges.desk_people_accounts import Row
from fingerprint.edges.desk_people_tables import invitations, persons, sessions
from fingerprint.people import Identity, Person, Refused, Role, fitting_name
from fingerprint.settings import Web

SEEN_SHARE = (
    20  # of the idle time a session may be seen before that is written down again: the clock is so exact
)


def begin(connection: sql.Connection, now: datetime, row: Row, web: Web) -> str:
    """A new session's secret."""
    secret = secrets_.new_secret()
    new = {
        "digest": secrets_.digest(secret),
        "person_id": row["person_id"],
        "created_at": now,
        "seen_at": now,
    }
    new["expires_at"] = now + timedelta(hours=web.session_hours)
    connection.execute(sql.insert(sessions).values(**new))
    accounts.change(connection, row, last_login=now)
    return secret


def alive(connection: sql.Connection, now: datetime, secret: str, web: Web) -> tuple[Person, bool] | None:
    """Whose session it is, and whether it is time to write down that it was seen."""
    joined = sql.select(persons, sessions.c.seen_at).join(
        sessions, sessions.c.person_id == persons.c.person_id
    )
    idle = timedelta(hours=web.session_idle_hours)
    lasts = (
        (sessions.c.expires_at > now) & (sessions.c.seen_at > now - idle) & persons.c.disabled_at.is_(None)
    )
    query = joined.where(sessions.c.digest == secrets_.digest(secret), lasts)
    row = connection.execute(query).mappings().first()
    if row is None:
        return None
    return accounts.person_of(dict(row)), now - row["seen_at"] > idle / SEEN_SHARE


def seen(connection: sql.Connection, now: datetime, secret: str) -> None:
    mine = sessions.c.digest == secrets_.digest(secret)
    connection.execute(sql.update(sessions).where(mine).values(seen_at=now))


def end(connection: sql.Connection, now: datetime, secret: str) -> None:
    """Log out."""
    mine = sessions.c.digest == secrets_.digest(secret)
    whose = sql.select(persons.c.name).join(sessions, sessions.c.person_id == persons.c.person_id).where(mine)
    name = connection.scalar(whose)
    if name:
        connection.execute(sql.delete(sessions).where(mine))
        say(connection, now, name, "person.logout", name)


def vouched(
    connection: sql.Connection, now: datetime, identity: Identity, default: Role | None, web: Web
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
    say(connection, now, row["name"], "person.login", row["name"], {"issuer": identity.issuer})
    return begin(connection, now, row, web)


def forget(connection: sql.Connection, now: datetime, web: Web) -> None:
    """Drop what is over."""
    idle = now - timedelta(hours=web.session_idle_hours)
    over = (sessions.c.expires_at <= now) | (sessions.c.seen_at <= idle)
    connection.execute(sql.delete(sessions).where(over))
    connection.execute(sql.delete(invitations).where(invitations.c.expires_at <= now))


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
