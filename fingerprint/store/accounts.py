"""Who may work at the desk: accounts, sessions, tokens and invitations, on the desk's own database (`ports_people.People`).

Example:
    >>> people = people_of(desk, SystemClock(), settings.web)
    >>> people.accept(people.begin(), "maria", "four plain english words", where)     # the first admin
    'Q0b...'
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

import sqlalchemy as sql

from fingerprint.core.account import (
    Identity,
    Invitation,
    Person,
    Refused,
    Role,
    Scope,
    SecondFactorNeeded,
    Session,
    Token,
    Where,
    checked_name,
)
from fingerprint.core.alert import FingerprintError
from fingerprint.core.passwords import weak_password
from fingerprint.core.ports import Clock
from fingerprint.core.settings import Web
from fingerprint.store import account_rows as accounts
from fingerprint.store import known_browsers as devices
from fingerprint.store import login_throttle as attempts
from fingerprint.store import second_factors as factors
from fingerprint.store import secret_hashes as secrets_
from fingerprint.store import sessions, tokens
from fingerprint.store.account_base import refuse
from fingerprint.store.account_rows import Row
from fingerprint.store.account_tables import persons
from fingerprint.store.alerts import SqlDesk
from fingerprint.store.audit import say
from fingerprint.store.second_factor_login import SecondFactors

WRONG = "the name or the password is wrong"
USED = "this link was used, or is older than a day: ask for another"
ELSEWHERE = "passwords are switched off here: log in through the provider"
NOWHERE = Where()


def people_of(desk: SqlDesk, clock: Clock, web: Web) -> SqlPeople:
    """The people of a desk that is open."""
    return SqlPeople(desk.engine, clock, web)


class SqlPeople(SecondFactors):
    """People over SQLAlchemy."""

    def enter(self, name: str, password: str, where: Where) -> str:
        row, counted = self._proven(name, password, where)

        def log_in(connection: sql.Connection) -> str | SecondFactorNeeded | None:
            now = self._clock.now()
            if not accounts.still(connection, row):
                return None
            attempts.forgive(connection, counted)
            if secrets_.outdated(row["password"]):
                accounts.change(connection, row, password=renewed)
            return sessions.admit(connection, now, row, where, self._web)

        renewed = secrets_.hashed(password) if secrets_.outdated(row["password"]) else ""
        return _let_in(self._write(log_in) or refuse(WRONG))

    def enter_as(self, identity: Identity, default: Role | None = None, where: Where = NOWHERE) -> str:
        return self._write(
            lambda connection: sessions.vouched(
                connection, self._clock.now(), identity, default, where, self._web
            )
        )

    def remember(self, session: str, device: str) -> str:
        row = self._in(session)
        return self._change(partial(devices.remember, person_id=row["person_id"], before=device))

    def leave(self, secret: str) -> None:
        self._write(lambda connection: sessions.end(connection, self._clock.now(), secret))

    def leave_others(self, name: str, secret: str) -> int:
        def leave(connection: sql.Connection) -> int:
            row = accounts.there(connection, name)
            ended = accounts.end_sessions(connection, row["person_id"], secrets_.digest(secret))
            say(connection, self._clock.now(), name, "person.leave_others", name, {"sessions": ended})
            return ended

        return self._write(leave)

    def session(self, secret: str) -> Session | None:
        row = self._read(lambda connection: self._session(connection, secret))
        return sessions.session_of(row) if row else None

    def sessions(self, name: str) -> list[Session]:
        return self._read(lambda connection: sessions.listed(connection, self._clock.now(), name, self._web))

    def end_session(self, session_id: str, by: str, owner: str | None = None) -> None:
        self._change(partial(sessions.end_one, session_id=session_id, by=by, owner=owner))

    def end_all(self, name: str, by: str) -> None:
        def end(connection: sql.Connection, now: datetime) -> None:
            accounts.end_all(connection, now, name, by)
            devices.forget(connection, accounts.there(connection, name)["person_id"])

        self._change(end)

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
        found = self._read(lambda connection: tokens.bearer(connection, now, secret, self._web))
        if found and (found[1].last_used is None or now - found[1].last_used > tokens.USED_EVERY):
            self._note(lambda connection: tokens.used(connection, now, found[1]))
        return found

    def begin(self) -> str | None:
        def first(connection: sql.Connection) -> str | None:
            by_provider = self._web.single_sign_on_only and not self._web.emergency_account
            if by_provider or accounts.has_admin(connection):
                return None
            return accounts.invitation(connection, self._clock.now(), name="")

        return self._write(first)

    def invitation(self, secret: str) -> Invitation | None:
        return self._read(lambda connection: accounts.invited(connection, self._clock.now(), secret))

    def accept(self, secret: str, name: str, password: str, where: Where = NOWHERE) -> str:
        invited = self.invitation(secret) or refuse(USED)
        mine = invited.name or checked_name(name)
        self._check_local(mine)
        kept = self._hashed(password, mine)

        def accept(connection: sql.Connection) -> str | SecondFactorNeeded | None:
            now = self._clock.now()
            if not accounts.invited(connection, now, secret):
                return None
            row = accounts.found(connection, mine) if invited.name else None
            row = row or accounts.add(connection, now, mine, "admin")
            accounts.no_invitation(connection, invited.name)
            ended = accounts.end_tokens(connection, now, row["person_id"])
            devices.forget(connection, row["person_id"])
            say(connection, now, mine, "person.accept", mine, {"tokens": ended})
            self._set_password(connection, row, kept)
            return sessions.admit(connection, now, row, where, self._web)

        return _let_in(self._write(accept) or refuse(USED))

    def persons(self) -> list[Person]:
        query = sql.select(persons).order_by(persons.c.name)
        return self._read(
            lambda connection: [accounts.person_of(dict(row)) for row in connection.execute(query).mappings()]
        )

    def person(self, name: str) -> Person:
        return self._read(lambda connection: accounts.person_of(accounts.there(connection, name)))

    def invite(self, name: str, role: Role | None, by: str) -> str:
        self._check_local(name.strip().lower())
        return self._change(partial(accounts.invite, name=checked_name(name), role=role, by=by))

    def set_role(self, name: str, role: Role, by: str) -> None:
        self._change(partial(accounts.set_role, name=name, role=role, by=by))

    def disable(self, name: str, by: str) -> None:
        self._change(partial(accounts.disable, name=name, by=by))

    def enable(self, name: str, by: str) -> None:
        self._change(partial(accounts.enable, name=name, by=by))

    def change_password(self, session: str, old: str, new: str, where: Where, end_tokens: bool = True) -> str:
        row = self._in(session)
        counted = self._reserved_for(session)
        if not secrets_.verified(row["password"], old):
            detail = {"address": where.address, "session": row["session_id"]}
            self._change(
                lambda connection, now: say(
                    connection, now, "somebody", "person.refused", row["name"], detail
                )
            )
            raise Refused(WRONG)
        kept = self._hashed(new, row["name"])

        def change(connection: sql.Connection) -> str | None:
            now = self._clock.now()
            if not accounts.still(connection, row):
                return None
            attempts.forgive(connection, counted)
            ended = accounts.end_tokens(connection, now, row["person_id"]) if end_tokens else 0
            say(connection, now, row["name"], "person.password", row["name"], {"tokens": ended})
            self._set_password(connection, row, kept)
            proven = row["proven_at"] if factors.kinds(connection, row["person_id"]) else now
            return sessions.begin(connection, now, row, where, row["proof"], self._web, proven)

        return self._write(change) or refuse(WRONG)

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
        self._change(attempts.forget)
        self._change(devices.forget_old)

    def _proven(self, name: str, password: str, where: Where) -> tuple[Row, list[attempts.Counter]]:
        """The row of whom the password is, and what the try counted for. It takes as long for a name that nobody has."""
        counted = self._reserved("password", name, where)
        row = self._read(lambda connection: accounts.found(connection, name.strip().lower()))
        right = secrets_.verified(row["password"] if row else None, password)
        if row and right and not row["disabled_at"] and not accounts.shut_out(row, self._web):
            return row, counted
        if row:
            detail = {"address": where.address}
            self._change(
                lambda connection, now: say(
                    connection, now, "somebody", "person.refused", row["name"], detail
                )
            )
        raise Refused(WRONG)

    def _hashed(self, password: str, name: str) -> str:
        """FingerprintError for a password that is too easy to guess."""
        if weak := weak_password(password, name, f"{self._web.title} {self._web.public_url or ''}"):
            raise FingerprintError(weak)
        return secrets_.hashed(password)

    def _set_password(self, connection: sql.Connection, row: Row, kept: str) -> None:
        """Sessions end, and so does a link, which would set it again."""
        accounts.change(connection, row, password=kept)
        accounts.end_sessions(connection, row["person_id"])
        accounts.no_invitation(connection, row["name"])

    def _check_local(self, name: str) -> None:
        """Refused where local accounts are good for nothing."""
        if accounts.shut_out({"subject": "", "name": name}, self._web):
            raise Refused(ELSEWHERE)


def _let_in(admitted: str | SecondFactorNeeded) -> str:
    """A session's secret; what else it takes is raised, once it is kept."""
    if isinstance(admitted, SecondFactorNeeded):
        raise admitted
    return admitted
