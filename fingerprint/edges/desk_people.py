"""Who may work at the desk: accounts, sessions, tokens and invitations, on the desk's own database (`ports_people.People`).

Example:
    >>> people = people_of(desk, SystemClock(), settings.web)
    >>> people.accept(people.begin(), "maria", "four plain english words")     # the first admin
    'Q0b...'

Changes come one after the other, so that the last admin cannot be lost between two of them; on PostgreSQL they take a turn of
their own, so nobody who logs in waits for the scorer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import NoReturn, TypeVar

import sqlalchemy as sql

from fingerprint.domain import FingerprintError
from fingerprint.edges import desk_engine
from fingerprint.edges import desk_people_accounts as accounts
from fingerprint.edges import desk_people_attempts as attempts
from fingerprint.edges import desk_people_secrets as secrets_
from fingerprint.edges import desk_people_sessions as sessions
from fingerprint.edges import desk_people_tokens as tokens
from fingerprint.edges.desk import SqlDesk
from fingerprint.edges.desk_audit import say
from fingerprint.edges.desk_people_accounts import Row
from fingerprint.edges.desk_people_tables import persons
from fingerprint.people import (
    Identity,
    Invitation,
    Person,
    Refused,
    Role,
    Scope,
    Token,
    checked_name,
    weak_password,
)
from fingerprint.ports import Clock
from fingerprint.settings import Web

WRONG = "the name or the password is wrong"
USED = "this link was used, or is older than a day: ask for another"

TURN = 0x70656F70  # the advisory lock of PostgreSQL for changes of people: "peop" in ASCII

T = TypeVar("T")


def people_of(desk: SqlDesk, clock: Clock, web: Web) -> SqlPeople:
    """The people of a desk that is open."""
    return SqlPeople(desk.engine, clock, web)


class SqlPeople:
    """People over SQLAlchemy."""

    def __init__(self, engine: sql.Engine, clock: Clock, web: Web) -> None:
        self._engine, self._clock, self._web = engine, clock, web

    def enter(self, name: str, password: str, address: str) -> str:
        row = self._proven(name, password, address)

        def log_in(connection: sql.Connection) -> str | None:
            now = self._clock.now()
            if not accounts.still(connection, row):
                return None
            attempts.clear(connection, row["name"], address)
            if secrets_.outdated(row["password"]):
                accounts.change(connection, row, password=renewed)
            say(connection, now, row["name"], "person.login", row["name"], {"address": address})
            return sessions.begin(connection, now, row, self._web)

        renewed = secrets_.hashed(password) if secrets_.outdated(row["password"]) else ""
        return self._write(log_in) or _refuse(WRONG)

    def enter_as(self, identity: Identity, default: Role | None = None) -> str:
        return self._write(
            lambda connection: sessions.vouched(connection, self._clock.now(), identity, default, self._web)
        )

    def leave(self, secret: str) -> None:
        self._write(lambda connection: sessions.end(connection, self._clock.now(), secret))

    def leave_others(self, name: str, secret: str) -> int:
        def leave(connection: sql.Connection) -> int:
            row = accounts.there(connection, name)
            ended = accounts.end_sessions(connection, row["person_id"], secrets_.digest(secret))
            say(connection, self._clock.now(), name, "person.leave_others", name, {"sessions": ended})
            return ended

        return self._write(leave)

    def who(self, secret: str, awake: bool = True) -> Person | None:
        now = self._clock.now()
        found = self._read(lambda connection: sessions.alive(connection, now, secret, self._web))
        if found is None:
            return None
        person, due = found
        if due and awake:
            self._note(lambda connection: sessions.seen(connection, now, secret))
        return person

    def bearer(self, secret: str) -> tuple[Person, Token] | None:
        now = self._clock.now()
        found = self._read(lambda connection: tokens.bearer(connection, now, secret))
        if found and (found[1].last_used is None or now - found[1].last_used > tokens.USED_EVERY):
            self._note(lambda connection: tokens.used(connection, now, found[1]))
        return found

    def begin(self) -> str | None:
        def first(connection: sql.Connection) -> str | None:
            if accounts.has_admin(connection):
                return None
            return accounts.invitation(connection, self._clock.now(), name="")

        return self._write(first)

    def invitation(self, secret: str) -> Invitation | None:
        return self._read(lambda connection: accounts.invited(connection, self._clock.now(), secret))

    def accept(self, secret: str, name: str, password: str) -> str:
        invited = self.invitation(secret) or _refuse(USED)
        mine = invited.name or checked_name(name)
        kept = _new_password(password, mine)

        def accept(connection: sql.Connection) -> str | None:
            now = self._clock.now()
            if not accounts.invited(connection, now, secret):
                return None
            row = accounts.found(connection, mine) if invited.name else None
            row = row or accounts.add(connection, now, mine, "admin")
            accounts.no_invitation(connection, invited.name)
            say(connection, now, mine, "person.accept", mine)
            return self._new_password(connection, now, row, kept)

        return self._write(accept) or _refuse(USED)

    def persons(self) -> list[Person]:
        query = sql.select(persons).order_by(persons.c.name)
        return self._read(
            lambda connection: [accounts.person_of(dict(row)) for row in connection.execute(query).mappings()]
        )

    def person(self, name: str) -> Person:
        return self._read(lambda connection: accounts.person_of(accounts.there(connection, name)))

    def invite(self, name: str, role: Role | None, by: str) -> str:
        return self._change(partial(accounts.invite, name=checked_name(name), role=role, by=by))

    def set_role(self, name: str, role: Role, by: str) -> None:
        self._change(partial(accounts.set_role, name=name, role=role, by=by))

    def disable(self, name: str, by: str) -> None:
        self._change(partial(accounts.disable, name=name, by=by))

    def enable(self, name: str, by: str) -> None:
        self._change(partial(accounts.enable, name=name, by=by))

    def change_password(self, name: str, old: str, new: str, address: str) -> str:
        row = self._proven(name, old, address)
        kept = _new_password(new, name)

        def change(connection: sql.Connection) -> str | None:
            now = self._clock.now()
            if not accounts.still(connection, row):
                return None
            attempts.clear(connection, name, address)
            say(connection, now, name, "person.password", name)
            return self._new_password(connection, now, row, kept)

        return self._write(change) or _refuse(WRONG)

    def make_token(
        self, owner: str, label: str, scopes: Sequence[Scope], expires_at: datetime, by: str
    ) -> tuple[Token, str]:
        make = partial(tokens.make, owner=owner, label=label, scopes=scopes, expires_at=expires_at, by=by)
        return self._change(make)

    def tokens(self, owner: str | None = None) -> list[Token]:
        return self._read(lambda connection: tokens.listed(connection, owner))

    def revoke(self, token_id: str, by: str, owner: str | None = None) -> None:
        self._change(partial(tokens.revoke, token_id=token_id, by=by, owner=owner))

    def forget(self) -> None:
        self._change(partial(sessions.forget, web=self._web))
        self._change(partial(attempts.forget, web=self._web))

    def _proven(self, name: str, password: str, address: str) -> Row:
        """The row of whom the password is. The attempt is counted before it is looked at, and takes as long for a name that
        nobody has."""
        self._change(partial(attempts.reserve, name=name, address=address, web=self._web))
        row = self._read(lambda connection: accounts.found(connection, name.strip().lower()))
        right = secrets_.verified(row["password"] if row else None, password)
        if row and right and not row["disabled_at"]:
            return row
        if row:
            detail = {"address": address}
            self._change(
                lambda connection, now: say(
                    connection, now, "somebody", "person.refused", row["name"], detail
                )
            )
        raise Refused(WRONG)

    def _new_password(self, connection: sql.Connection, now: datetime, row: Row, kept: str) -> str:
        """Other sessions end, and so does a link; the new session's secret."""
        accounts.change(connection, row, password=kept)
        accounts.end_sessions(connection, row["person_id"])
        accounts.no_invitation(connection, row["name"])  # an older link would set it again
        return sessions.begin(connection, now, row, self._web)

    def _change(self, work: Callable[[sql.Connection, datetime], T]) -> T:
        return self._write(lambda connection: work(connection, self._clock.now()))

    def _write(self, work: Callable[[sql.Connection], T]) -> T:
        with desk_engine.plainly(self._engine.url):
            return desk_engine.written(self._engine, partial(_in_turn, work=work), desk_engine.ROWS)

    def _note(self, work: Callable[[sql.Connection], None]) -> None:
        """What may be written down, or else the next time."""
        with suppress(FingerprintError):
            self._write(work)

    def _read(self, work: Callable[[sql.Connection], T]) -> T:
        with (
            desk_engine.plainly(self._engine.url),
            self._engine.connect() as connection,
            connection.begin(),
        ):
            return work(connection)


def _in_turn(connection: sql.Connection, work: Callable[[sql.Connection], T]) -> T:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({TURN})")
    return work(connection)


def _new_password(password: str, name: str) -> str:
    """Hashed, if it will do."""
    if weak := weak_password(password, name):
        raise FingerprintError(weak)
    return secrets_.hashed(password)


def _refuse(sentence: str) -> NoReturn:
    raise Refused(sentence)
