"""Second factors of accounts at login, and authenticating again in a session: a base of `SqlAccountStore`.

Example:
    >>> try:
    ...     session = accounts.log_in("maria", "four plain english words", where)
    ... except SecondFactorNeeded as needed:
    ...     session = accounts.finish_login(needed.login, SecondFactorResponse(code="105721"), client)

An account with a second factor authenticates again with it, one without with its password.
"""

from __future__ import annotations

from functools import partial

import sqlalchemy as sql

from fingerprint.core.account import (
    ClientInfo,
    FactorKind,
    PendingLogin,
    RelyingParty,
    SecondFactor,
    SecondFactorResponse,
)
from fingerprint.core.alert import FingerprintError
from fingerprint.store import account_rows, login_throttle, second_factors, secret_hashes, sessions
from fingerprint.store.account_rows import AccountRepository, Row, raise_refused
from fingerprint.store.audit import add_audit_entry

WRONG_FACTOR = "this code or passkey is wrong, or was used before"
LOGIN_EXPIRED = "the login took too long: begin again"


class SqlSecondFactors(AccountRepository):
    """Second factors (`core.ports.accounts.SecondFactorStore`)."""

    def pending_login(self, secret: str) -> PendingLogin | None:
        def look(connection: sql.Connection) -> PendingLogin | None:
            row = sessions.find_pending_login(connection, self._now(), secret)
            return sessions.remaining_login_steps(connection, row) if row else None

        return self._read(look)

    def finish_login(self, secret: str, response: SecondFactorResponse, client: ClientInfo) -> str:
        row = self._require_pending_login(secret)
        counted = (
            self._reserve_session_attempt(secret)
            if response.passkey
            else self._reserve_login_attempt("code", row["name"], client)
        )

        def finish(connection: sql.Connection) -> str | None:
            now = self._now()
            row = sessions.find_pending_login(connection, now, secret) or raise_refused(LOGIN_EXPIRED)
            sessions.save_challenge(connection, secret, "")
            proof = second_factors.verify_second_factor(connection, now, row, response, row["challenge"])
            if proof is None:
                detail = {
                    "address": client.address,
                    "second factor": "passkey" if response.passkey else "code",
                }
                add_audit_entry(connection, now, "unknown", "account.refused", row["name"], detail)
                return None
            login_throttle.clear_failures(connection, counted)
            sessions.delete_pending_login(connection, secret)
            return sessions.begin_session(connection, now, row, client, proof, self._web)

        return self._write(finish) or raise_refused(WRONG_FACTOR)

    def enroll_at_login(
        self, secret: str, app_secret: str, code: str, client: ClientInfo
    ) -> tuple[str, list[str]]:
        row = self._require_pending_login(secret)
        counted = self._reserve_login_attempt("code", row["name"], client)

        def finish(connection: sql.Connection) -> tuple[str, list[str]]:
            now = self._now()
            row = sessions.find_pending_login(connection, now, secret) or raise_refused(LOGIN_EXPIRED)
            if second_factors.read_factor_kinds(connection, row["account_id"]):
                raise_refused("this account has a second factor: show that one")
            codes = second_factors.add_totp_factor(
                connection, now, row, "authenticator app", app_secret, code
            )
            add_audit_entry(connection, now, row["name"], "factor.add", row["name"], {"kind": "code"})
            login_throttle.clear_failures(connection, counted)
            sessions.delete_pending_login(connection, secret)
            return sessions.begin_session(connection, now, row, client, "code", self._web), codes

        return self._write(finish)

    def reauthenticate(
        self, session: str, password: str = "", response: SecondFactorResponse | None = None
    ) -> None:
        row = self._require_session(session)
        counted = self._reserve_session_attempt(session)
        kinds = self._read(lambda connection: second_factors.read_factor_kinds(connection, row["account_id"]))
        right = not kinds and secret_hashes.verify_password(row["password"], password)

        def confirm(connection: sql.Connection) -> bool:
            now = self._now()
            asked = (self._find_session(connection, session) or raise_refused(LOGIN_EXPIRED))["challenge"]
            sessions.save_challenge(connection, session, "")
            proven = right and account_rows.password_unchanged(connection, row)
            if kinds and response:
                proven = (
                    second_factors.verify_second_factor(connection, now, row, response, asked) is not None
                )
            if not proven:
                detail = {"address": row["address"], "session": row["session_id"]}
                add_audit_entry(connection, now, "unknown", "account.refused", row["name"], detail)
                return False
            login_throttle.clear_failures(connection, counted)
            sessions.mark_reauthenticated(connection, now, row["digest"])
            return True

        if not self._write(confirm):
            raise_refused(WRONG_FACTOR if kinds else "the password is wrong")

    def begin_passkey_login(self, secret: str, party: RelyingParty) -> str:
        def ask(connection: sql.Connection) -> str:
            row = self._find_session(connection, secret) or sessions.find_pending_login(
                connection, self._now(), secret
            )
            options, challenge = second_factors.passkey_request_options(
                connection, (row or raise_refused(LOGIN_EXPIRED))["account_id"], party
            )
            sessions.save_challenge(connection, secret, challenge)
            return options

        return self._write(ask)

    def begin_passkey_registration(self, session: str, party: RelyingParty) -> str:
        def ask(connection: sql.Connection) -> str:
            row = self._require_local_session(connection, session)
            options, challenge = second_factors.passkey_registration_options(
                connection, row, party, self._web.title
            )
            sessions.save_challenge(connection, session, challenge)
            return options

        return self._write(ask)

    def add_passkey(self, session: str, label: str, answer: str, party: RelyingParty) -> list[str]:
        def add(connection: sql.Connection) -> list[str]:
            now, row = self._now(), self._require_local_session(connection, session)
            sessions.save_challenge(connection, session, "")
            codes = second_factors.add_passkey_factor(
                connection, now, row, label, answer, row["challenge"], party
            )
            add_audit_entry(connection, now, row["name"], "factor.add", row["name"], {"kind": "passkey"})
            return codes

        return self._write(add)

    def new_authenticator_app(self, name: str, secret: str = "") -> tuple[str, str]:
        made = (
            secret
            if second_factors.TOTP_SECRET_PATTERN.fullmatch(secret)
            else second_factors.new_totp_secret()
        )
        return made, second_factors.totp_uri(made, name, self._web.title)

    def add_authenticator_app(self, session: str, label: str, secret: str, code: str) -> list[str]:
        def add(connection: sql.Connection) -> list[str]:
            now, row = self._now(), self._require_local_session(connection, session)
            codes = second_factors.add_totp_factor(connection, now, row, label, secret, code)
            add_audit_entry(connection, now, row["name"], "factor.add", row["name"], {"kind": "code"})
            return codes

        return self._write(add)

    def factors(self, name: str) -> list[SecondFactor]:
        return self._read(
            lambda connection: second_factors.read_factors(
                connection, account_rows.require_account(connection, name)["account_id"]
            )
        )

    def factor_kinds(self, name: str) -> tuple[FactorKind, ...]:
        return tuple(sorted({factor.kind for factor in self.factors(name)}))

    def recovery_codes_left(self, name: str) -> int:
        return self._read(
            lambda connection: second_factors.count_recovery_codes(
                connection, account_rows.require_account(connection, name)["account_id"]
            )
        )

    def new_recovery_codes(self, session: str) -> list[str]:
        def renew(connection: sql.Connection) -> list[str]:
            now, row = self._now(), self._require_local_session(connection, session)
            if not second_factors.read_factor_kinds(connection, row["account_id"]):
                raise FingerprintError("recovery codes stand in for a second factor: add one first")
            add_audit_entry(connection, now, row["name"], "factor.recovery_codes", row["name"])
            return second_factors.replace_recovery_codes(connection, now, row["account_id"])

        return self._write(renew)

    def remove_factor(self, session: str, factor_id: str) -> None:
        def remove(connection: sql.Connection) -> None:
            now, row = self._now(), self._require_local_session(connection, session)
            if (
                self._web.second_factor == "required"
                and len(second_factors.read_factors(connection, row["account_id"])) < 2
            ):
                raise FingerprintError(
                    "a second factor is required here: add another before you remove this one"
                )
            gone = second_factors.remove_factor(connection, row["account_id"], factor_id)
            add_audit_entry(connection, now, row["name"], "factor.remove", row["name"], {"kind": gone.kind})

        self._write(remove)

    def reset_factors(self, name: str, by: str) -> None:
        def reset(connection: sql.Connection) -> None:
            row = account_rows.require_account(connection, name)
            second_factors.remove_all_factors(connection, row["account_id"])
            account_rows.delete_account_sessions(connection, row["account_id"])
            add_audit_entry(connection, self._now(), by, "factor.reset", name)

        self._write(reset)

    def accounts_with_second_factor(self) -> frozenset[str]:
        return self._read(second_factors.names_with_second_factor)

    def _reserve_login_attempt(
        self, what: login_throttle.CredentialKind, name: str, where: ClientInfo
    ) -> list[login_throttle.FailureCounter]:
        """Count a try before anything is verified. Raise TooManyAttempts inside a delay."""

        def reserve(connection: sql.Connection) -> list[login_throttle.FailureCounter]:
            now = self._now()
            row = account_rows.find_account(connection, name.strip().lower())
            known = login_throttle.is_known_browser(connection, now, row, where.device)
            counted = login_throttle.login_counters(what, name, where, known)
            login_throttle.reserve_attempts(connection, now, counted)
            return counted

        return self._write(reserve)

    def _reserve_session_attempt(self, secret: str) -> list[login_throttle.FailureCounter]:
        """Count a try of this session or pending login alone: failures elsewhere do not delay it."""
        counted = login_throttle.session_counters(secret_hashes.secret_digest(secret))
        self._change(partial(login_throttle.reserve_attempts, counted=counted))
        return counted

    def _require_pending_login(self, secret: str) -> Row:
        """Return the account's row of a pending login. Raise AuthenticationFailed without one."""
        find = partial(sessions.find_pending_login, now=self._now(), secret=secret)
        return self._read(lambda connection: find(connection)) or raise_refused(LOGIN_EXPIRED)

    def _find_session(self, connection: sql.Connection, session: str) -> Row | None:
        return sessions.find_session(connection, self._now(), session, self._web)

    def _require_session(self, session: str) -> Row:
        """Return the row of a session. Raise AuthenticationFailed without one."""
        return self._read(lambda connection: self._find_session(connection, session)) or raise_refused(
            LOGIN_EXPIRED
        )

    def _require_local_session(self, connection: sql.Connection, session: str) -> Row:
        """Return the row of a session whose account has a password here."""
        row = self._find_session(connection, session) or raise_refused(LOGIN_EXPIRED)
        if row["subject"]:
            raise FingerprintError(
                f"{row['name']} logs in at {row['issuer']}: a second factor is set up there"
            )
        return row
