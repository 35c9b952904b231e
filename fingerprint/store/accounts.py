"""Accounts, sessions, tokens and invitations, in the database of the alert store (`core.ports.accounts.AccountStore`).

Example:
    >>> accounts = open_account_store(store.session, SystemClock(), settings.web)
    >>> accounts.accept_invitation(accounts.create_first_invitation(), "maria", "four plain english words")
    'Q0b...'
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

import sqlalchemy as sql

from fingerprint.core.account import (
    AccessToken,
    Account,
    AuthenticationFailed,
    ClientInfo,
    ExternalIdentity,
    Invitation,
    LoginSession,
    Role,
    Scope,
    SecondFactorNeeded,
    validate_name,
)
from fingerprint.core.alert import FingerprintError
from fingerprint.core.passwords import weak_password
from fingerprint.core.ports import Clock
from fingerprint.core.settings import Web
from fingerprint.store import account_rows, login_throttle, second_factors, secret_hashes, sessions, tokens
from fingerprint.store.account_rows import Row, raise_refused
from fingerprint.store.audit import add_audit_entry
from fingerprint.store.database import Session
from fingerprint.store.schema import accounts
from fingerprint.store.second_factor_login import SqlSecondFactors

WRONG_CREDENTIALS = "the name or the password is wrong"
LINK_EXPIRED = "this link was used, or is older than a day: ask for another"
PASSWORDS_DISABLED = "passwords are switched off here: log in through the provider"
UNKNOWN_CLIENT = ClientInfo()


def open_account_store(session: Session, clock: Clock, web: Web) -> SqlAccountStore:
    """Return the accounts in the database of an open store (`store.session`)."""
    return SqlAccountStore(Session(session.engine, clock.now), web)


class SqlAccountStore(SqlSecondFactors):
    """Accounts over SQLAlchemy; each change and its line in the audit are one transaction."""

    def log_in(self, name: str, password: str, client: ClientInfo) -> str:
        row, counted = self._verify_credentials(name, password, client)

        def log_in(connection: sql.Connection) -> str | SecondFactorNeeded | None:
            now = self._now()
            if not account_rows.password_unchanged(connection, row):
                return None
            login_throttle.clear_failures(connection, counted)
            if secret_hashes.needs_rehash(row["password"]):
                account_rows.update_account(connection, row, password=renewed)
            return sessions.begin_login(connection, now, row, client, self._web)

        renewed = secret_hashes.hash_password(password) if secret_hashes.needs_rehash(row["password"]) else ""
        return _session_secret(self._write(log_in) or raise_refused(WRONG_CREDENTIALS))

    def log_in_as(
        self, identity: ExternalIdentity, default: Role | None = None, client: ClientInfo = UNKNOWN_CLIENT
    ) -> str:
        return self._write(
            lambda connection: sessions.log_in_with_identity(
                connection, self._now(), identity, default, client, self._web
            )
        )

    def remember_browser(self, session: str, device: str) -> str:
        row = self._require_session(session)
        return self._change(
            partial(login_throttle.remember_browser, account_id=row["account_id"], previous_secret=device)
        )

    def log_out(self, secret: str) -> None:
        self._write(lambda connection: sessions.end_session_by_secret(connection, self._now(), secret))

    def end_other_sessions(self, name: str, secret: str) -> int:
        def leave(connection: sql.Connection) -> int:
            row = account_rows.require_account(connection, name)
            ended = account_rows.delete_account_sessions(
                connection, row["account_id"], secret_hashes.secret_digest(secret)
            )
            add_audit_entry(connection, self._now(), name, "account.leave_others", name, {"sessions": ended})
            return ended

        return self._write(leave)

    def session(self, secret: str) -> LoginSession | None:
        row = self._read(lambda connection: self._find_session(connection, secret))
        return sessions.to_session(row) if row else None

    def sessions(self, name: str) -> list[LoginSession]:
        return self._read(lambda connection: sessions.read_sessions(connection, self._now(), name, self._web))

    def end_session(self, session_id: str, by: str, owner: str | None = None) -> None:
        self._change(partial(sessions.end_session_by_id, session_id=session_id, by=by, owner=owner))

    def end_all_sessions(self, name: str, by: str) -> None:
        def end(connection: sql.Connection, now: datetime) -> None:
            account_rows.end_sessions_and_tokens(connection, now, name, by)
            login_throttle.forget_browsers(
                connection, account_rows.require_account(connection, name)["account_id"]
            )

        self._change(end)

    def authenticate_session(self, secret: str, is_activity: bool = True) -> Account | None:
        now = self._now()
        found = self._read(
            lambda connection: sessions.authenticate_session(connection, now, secret, self._web)
        )
        if found is None:
            return None
        person, due = found
        if due and is_activity:
            self._try_write(lambda connection: sessions.mark_session_seen(connection, now, secret))
        return person

    def authenticate_token(self, secret: str) -> tuple[Account, AccessToken] | None:
        now = self._now()
        found = self._read(lambda connection: tokens.authenticate_token(connection, now, secret, self._web))
        if found and (found[1].last_used is None or now - found[1].last_used > tokens.LAST_USED_INTERVAL):
            self._try_write(lambda connection: tokens.mark_token_used(connection, now, found[1]))
        return found

    def create_first_invitation(self) -> str | None:
        def first(connection: sql.Connection) -> str | None:
            by_provider = self._web.single_sign_on_only and not self._web.emergency_account
            if by_provider or account_rows.has_active_admin(connection):
                return None
            return account_rows.insert_invitation(connection, self._now(), name="")

        return self._write(first)

    def invitation(self, secret: str) -> Invitation | None:
        return self._read(lambda connection: account_rows.find_invitation(connection, self._now(), secret))

    def accept_invitation(
        self, secret: str, name: str, password: str, client: ClientInfo = UNKNOWN_CLIENT
    ) -> str:
        invited = self.invitation(secret) or raise_refused(LINK_EXPIRED)
        mine = invited.name or validate_name(name)
        self._check_local_account(mine)
        kept = self._hash_checked_password(password, mine)

        def accept(connection: sql.Connection) -> str | SecondFactorNeeded | None:
            now = self._now()
            if not account_rows.find_invitation(connection, now, secret):
                return None
            row = account_rows.find_account(connection, mine) if invited.name else None
            row = row or account_rows.add_account(connection, now, mine, "admin")
            account_rows.delete_invitation(connection, invited.name)
            ended = account_rows.revoke_account_tokens(connection, now, row["account_id"])
            login_throttle.forget_browsers(connection, row["account_id"])
            add_audit_entry(connection, now, mine, "account.accept", mine, {"tokens": ended})
            self._set_password(connection, row, kept)
            return sessions.begin_login(connection, now, row, client, self._web)

        return _session_secret(self._write(accept) or raise_refused(LINK_EXPIRED))

    def accounts(self) -> list[Account]:
        query = sql.select(accounts).order_by(accounts.c.name)
        return self._read(
            lambda connection: [
                account_rows.to_account(dict(row)) for row in connection.execute(query).mappings()
            ]
        )

    def account(self, name: str) -> Account:
        return self._read(
            lambda connection: account_rows.to_account(account_rows.require_account(connection, name))
        )

    def invite(self, name: str, role: Role | None, by: str) -> str:
        self._check_local_account(name.strip().lower())
        return self._change(partial(account_rows.invite_by_name, name=validate_name(name), role=role, by=by))

    def set_role(self, name: str, role: Role, by: str) -> None:
        self._change(partial(account_rows.update_role, name=name, role=role, by=by))

    def disable(self, name: str, by: str) -> None:
        self._change(partial(account_rows.mark_disabled, name=name, by=by))

    def enable(self, name: str, by: str) -> None:
        self._change(partial(account_rows.mark_enabled, name=name, by=by))

    def change_password(
        self, session: str, old: str, new: str, client: ClientInfo, end_tokens: bool = True
    ) -> str:
        row = self._require_session(session)
        counted = self._reserve_session_attempt(session)
        if not secret_hashes.verify_password(row["password"], old):
            detail = {"address": client.address, "session": row["session_id"]}
            self._change(
                lambda connection, now: add_audit_entry(
                    connection, now, "unknown", "account.refused", row["name"], detail
                )
            )
            raise AuthenticationFailed(WRONG_CREDENTIALS)
        kept = self._hash_checked_password(new, row["name"])

        def change(connection: sql.Connection) -> str | None:
            now = self._now()
            if not account_rows.password_unchanged(connection, row):
                return None
            login_throttle.clear_failures(connection, counted)
            ended = (
                account_rows.revoke_account_tokens(connection, now, row["account_id"]) if end_tokens else 0
            )
            add_audit_entry(connection, now, row["name"], "account.password", row["name"], {"tokens": ended})
            self._set_password(connection, row, kept)
            proven = (
                row["proven_at"] if second_factors.read_factor_kinds(connection, row["account_id"]) else now
            )
            return sessions.begin_session(connection, now, row, client, row["proof"], self._web, proven)

        return self._write(change) or raise_refused(WRONG_CREDENTIALS)

    def create_token(
        self, owner: str, label: str, scopes: Sequence[Scope], expires_at: datetime, by: str
    ) -> tuple[AccessToken, str]:
        make = partial(
            tokens.insert_token, owner=owner, label=label, scopes=scopes, expires_at=expires_at, by=by
        )
        return self._change(make)

    def tokens(self, owner: str | None = None) -> list[AccessToken]:
        return self._read(lambda connection: tokens.read_tokens(connection, owner))

    def revoke_token(self, token_id: str, by: str, owner: str | None = None) -> None:
        self._change(partial(tokens.mark_token_revoked, token_id=token_id, by=by, owner=owner))

    def delete_expired(self) -> None:
        self._change(partial(sessions.delete_expired_sessions, web=self._web))
        self._change(login_throttle.delete_expired_attempts)
        self._change(login_throttle.delete_expired_browsers)

    def _verify_credentials(
        self, name: str, password: str, where: ClientInfo
    ) -> tuple[Row, list[login_throttle.FailureCounter]]:
        """Return the account's row and the counters of the try. It takes as long for an unknown name."""
        counted = self._reserve_login_attempt("password", name, where)
        row = self._read(lambda connection: account_rows.find_account(connection, name.strip().lower()))
        right = secret_hashes.verify_password(row["password"] if row else None, password)
        if (
            row
            and right
            and not row["disabled_at"]
            and not account_rows.is_local_login_disabled(row, self._web)
        ):
            return row, counted
        if row:
            detail = {"address": where.address}
            self._change(
                lambda connection, now: add_audit_entry(
                    connection, now, "unknown", "account.refused", row["name"], detail
                )
            )
        raise AuthenticationFailed(WRONG_CREDENTIALS)

    def _hash_checked_password(self, password: str, name: str) -> str:
        """Return the hash of a new password. Raise FingerprintError for one that is too easy to guess."""
        if weak := weak_password(password, name, f"{self._web.title} {self._web.public_url or ''}"):
            raise FingerprintError(weak)
        return secret_hashes.hash_password(password)

    def _set_password(self, connection: sql.Connection, row: Row, kept: str) -> None:
        """Set a password, end sessions, and delete the invitation, which would set it again."""
        account_rows.update_account(connection, row, password=kept)
        account_rows.delete_account_sessions(connection, row["account_id"])
        account_rows.delete_invitation(connection, row["name"])

    def _check_local_account(self, name: str) -> None:
        """Raise AuthenticationFailed where local accounts cannot log in."""
        if account_rows.is_local_login_disabled({"subject": "", "name": name}, self._web):
            raise AuthenticationFailed(PASSWORDS_DISABLED)


def _session_secret(admitted: str | SecondFactorNeeded) -> str:
    """Return a session's secret, or raise SecondFactorNeeded once the pending login is saved."""
    if isinstance(admitted, SecondFactorNeeded):
        raise admitted
    return admitted
