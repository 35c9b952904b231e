"""Second factors of accounts, and proving again who one is: a part of `SqlPeople`.

Example:
    >>> try:
    ...     session = people.enter("maria", "four plain english words", where)
    ... except SecondFactorNeeded as needed:
    ...     session = people.finish_login(needed.login, Shown(code="105721"), where)

Whoever has a second factor proves with it who they are; a password is enough for who has none.
"""

from __future__ import annotations

from functools import partial

import sqlalchemy as sql

from fingerprint.core.account import Factor, FactorKind, Login, RelyingParty, Shown, Where
from fingerprint.core.alert import FingerprintError
from fingerprint.store import account_rows as accounts
from fingerprint.store import known_browsers as devices
from fingerprint.store import login_throttle as attempts
from fingerprint.store import second_factors as factors
from fingerprint.store import secret_hashes as secrets_
from fingerprint.store import sessions
from fingerprint.store.account_base import Turns, refuse
from fingerprint.store.account_rows import Row
from fingerprint.store.audit import say

WRONG_FACTOR = "this code or passkey is wrong, or was used before"
TOO_LATE = "the login took too long: begin again"


class SecondFactors(Turns):
    """Second factors over SQLAlchemy."""

    def login(self, secret: str) -> Login | None:
        def look(connection: sql.Connection) -> Login | None:
            row = sessions.login_of(connection, self._clock.now(), secret)
            return sessions.awaited(connection, row) if row else None

        return self._read(look)

    def finish_login(self, secret: str, shown: Shown, where: Where) -> str:
        row = self._awaited(secret)
        counted = self._reserved_for(secret) if shown.passkey else self._reserved("code", row["name"], where)

        def finish(connection: sql.Connection) -> str | None:
            now = self._clock.now()
            row = sessions.login_of(connection, now, secret) or refuse(TOO_LATE)
            sessions.challenge(connection, secret, "")
            proof = factors.shown(connection, now, row, shown, row["challenge"])
            if proof is None:
                detail = {"address": where.address, "second factor": "passkey" if shown.passkey else "code"}
                say(connection, now, "somebody", "person.refused", row["name"], detail)
                return None
            attempts.forgive(connection, counted)
            sessions.end_login(connection, secret)
            return sessions.begin(connection, now, row, where, proof, self._web)

        return self._write(finish) or refuse(WRONG_FACTOR)

    def set_up_login(self, secret: str, app_secret: str, code: str, where: Where) -> tuple[str, list[str]]:
        row = self._awaited(secret)
        counted = self._reserved("code", row["name"], where)

        def finish(connection: sql.Connection) -> tuple[str, list[str]]:
            now = self._clock.now()
            row = sessions.login_of(connection, now, secret) or refuse(TOO_LATE)
            if factors.kinds(connection, row["person_id"]):
                refuse("this account has a second factor: show that one")
            codes = factors.add_app(connection, now, row, "authenticator app", app_secret, code)
            say(connection, now, row["name"], "factor.add", row["name"], {"kind": "code"})
            attempts.forgive(connection, counted)
            sessions.end_login(connection, secret)
            return sessions.begin(connection, now, row, where, "code", self._web), codes

        return self._write(finish)

    def confirm(self, session: str, password: str = "", shown: Shown | None = None) -> None:
        row = self._in(session)
        counted = self._reserved_for(session)
        kinds = self._read(lambda connection: factors.kinds(connection, row["person_id"]))
        right = not kinds and secrets_.verified(row["password"], password)

        def confirm(connection: sql.Connection) -> bool:
            now = self._clock.now()
            asked = (self._session(connection, session) or refuse(TOO_LATE))["challenge"]
            sessions.challenge(connection, session, "")
            proven = right and accounts.still(connection, row)
            if kinds and shown:
                proven = factors.shown(connection, now, row, shown, asked) is not None
            if not proven:
                detail = {"address": row["address"], "session": row["session_id"]}
                say(connection, now, "somebody", "person.refused", row["name"], detail)
                return False
            attempts.forgive(connection, counted)
            sessions.proven(connection, now, row["digest"])
            return True

        if not self._write(confirm):
            refuse(WRONG_FACTOR if kinds else "the password is wrong")

    def ask_passkey(self, secret: str, party: RelyingParty) -> str:
        def ask(connection: sql.Connection) -> str:
            row = self._session(connection, secret) or sessions.login_of(
                connection, self._clock.now(), secret
            )
            options, challenge = factors.request(connection, (row or refuse(TOO_LATE))["person_id"], party)
            sessions.challenge(connection, secret, challenge)
            return options

        return self._write(ask)

    def ask_new_passkey(self, session: str, party: RelyingParty) -> str:
        def ask(connection: sql.Connection) -> str:
            row = self._local(connection, session)
            options, challenge = factors.registration(connection, row, party, self._web.title)
            sessions.challenge(connection, session, challenge)
            return options

        return self._write(ask)

    def add_passkey(self, session: str, label: str, answer: str, party: RelyingParty) -> list[str]:
        def add(connection: sql.Connection) -> list[str]:
            now, row = self._clock.now(), self._local(connection, session)
            sessions.challenge(connection, session, "")
            codes = factors.add_passkey(connection, now, row, label, answer, row["challenge"], party)
            say(connection, now, row["name"], "factor.add", row["name"], {"kind": "passkey"})
            return codes

        return self._write(add)

    def new_app(self, name: str, secret: str = "") -> tuple[str, str]:
        made = secret if factors.SECRET.fullmatch(secret) else factors.new_secret()
        return made, factors.app_address(made, name, self._web.title)

    def add_app(self, session: str, label: str, secret: str, code: str) -> list[str]:
        def add(connection: sql.Connection) -> list[str]:
            now, row = self._clock.now(), self._local(connection, session)
            codes = factors.add_app(connection, now, row, label, secret, code)
            say(connection, now, row["name"], "factor.add", row["name"], {"kind": "code"})
            return codes

        return self._write(add)

    def factors(self, name: str) -> list[Factor]:
        return self._read(
            lambda connection: factors.listed(connection, accounts.there(connection, name)["person_id"])
        )

    def factor_kinds(self, name: str) -> tuple[FactorKind, ...]:
        return tuple(sorted({factor.kind for factor in self.factors(name)}))

    def recovery_codes_left(self, name: str) -> int:
        return self._read(
            lambda connection: factors.recovery_left(
                connection, accounts.there(connection, name)["person_id"]
            )
        )

    def new_recovery_codes(self, session: str) -> list[str]:
        def renew(connection: sql.Connection) -> list[str]:
            now, row = self._clock.now(), self._local(connection, session)
            if not factors.kinds(connection, row["person_id"]):
                raise FingerprintError("recovery codes stand in for a second factor: add one first")
            say(connection, now, row["name"], "factor.recovery_codes", row["name"])
            return factors.new_recovery_codes(connection, now, row["person_id"])

        return self._write(renew)

    def remove_factor(self, session: str, factor_id: str) -> None:
        def remove(connection: sql.Connection) -> None:
            now, row = self._clock.now(), self._local(connection, session)
            if (
                self._web.second_factor == "required"
                and len(factors.listed(connection, row["person_id"])) < 2
            ):
                raise FingerprintError(
                    "a second factor is required here: add another before you remove this one"
                )
            gone = factors.remove(connection, row["person_id"], factor_id)
            say(connection, now, row["name"], "factor.remove", row["name"], {"kind": gone.kind})

        self._write(remove)

    def reset_factors(self, name: str, by: str) -> None:
        def reset(connection: sql.Connection) -> None:
            row = accounts.there(connection, name)
            factors.reset(connection, row["person_id"])
            accounts.end_sessions(connection, row["person_id"])
            say(connection, self._clock.now(), by, "factor.reset", name)

        self._write(reset)

    def with_second_factor(self) -> frozenset[str]:
        return self._read(factors.owners)

    def _reserved(self, what: attempts.What, name: str, where: Where) -> list[attempts.Counter]:
        """Counted before anything is looked at. TooMany inside a delay."""

        def reserve(connection: sql.Connection) -> list[attempts.Counter]:
            now = self._clock.now()
            row = accounts.found(connection, name.strip().lower())
            known = devices.known(connection, now, row, where.device)
            counted = attempts.counters(what, name, where, known)
            attempts.reserve(connection, now, counted)
            return counted

        return self._write(reserve)

    def _reserved_for(self, secret: str) -> list[attempts.Counter]:
        """Counted of this session or login under way alone: no stranger's failures delay it."""
        counted = attempts.of_session(secrets_.digest(secret))
        self._change(partial(attempts.reserve, counted=counted))
        return counted

    def _awaited(self, secret: str) -> Row:
        """The row of whose login is under way."""
        find = partial(sessions.login_of, now=self._clock.now(), secret=secret)
        return self._read(lambda connection: find(connection)) or refuse(TOO_LATE)

    def _session(self, connection: sql.Connection, session: str) -> Row | None:
        return sessions.found(connection, self._clock.now(), session, self._web)

    def _in(self, session: str) -> Row:
        """The row of whose session it is."""
        return self._read(lambda connection: self._session(connection, session)) or refuse(TOO_LATE)

    def _local(self, connection: sql.Connection, session: str) -> Row:
        """The row of whose session it is, if they log in here."""
        row = self._session(connection, session) or refuse(TOO_LATE)
        if row["subject"]:
            raise FingerprintError(
                f"{row['name']} logs in at {row['issuer']}: a second factor is set up there"
            )
        return row
