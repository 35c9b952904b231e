"""Logins with a password and a second factor, an invitation, or an identity provider; repeated authentication in a session.

Example:
    >>> try:
    ...     session = store.logins.log_in("maria", "four plain english words", client)
    ... except SecondFactorNeeded as needed:
    ...     session = store.logins.finish(needed.login, SecondFactorResponse(code="105721"), client)

Every attempt is counted before anything is verified (`login_throttle.py`). A *pending login* has the right password and still
needs a second factor. To authenticate again, an account uses its second factor, or its password if it has none.
"""

from __future__ import annotations

from functools import partial

import sqlalchemy as sql

from fingerprint.core.account import (
    LINK_EXPIRED,
    AuthenticationFailed,
    ClientInfo,
    ExternalIdentity,
    PendingLogin,
    RelyingParty,
    Role,
    SecondFactorNeeded,
    SecondFactorResponse,
    validate_name,
)
from fingerprint.core.errors import FingerprintError
from fingerprint.core.passwords import weak_password
from fingerprint.store import (
    account_rows,
    factor_rows,
    login_throttle,
    pending_logins,
    provider_accounts,
    secret_hashes,
    sessions,
)
from fingerprint.store.account_rows import AccountTable, raise_refused
from fingerprint.store.audit import add_audit_entry
from fingerprint.store.database import Locking, reads, writes
from fingerprint.store.login_throttle import CredentialKind, FailureCounter
from fingerprint.store.schema import Row

WRONG_CREDENTIALS = "the name or the password is wrong"
WRONG_FACTOR = "this code or passkey is wrong, or was used before"
UNKNOWN_CLIENT = ClientInfo()


class SqlLoginRepository(AccountTable):
    """Logins; each change and its line in the audit are one transaction."""

    def log_in(self, name: str, password: str, client: ClientInfo) -> str:
        """Return a new session's secret. Raise SecondFactorNeeded if the password is right and a second factor is needed."""
        row, counted = self._verify_credentials(name, password, client)
        renewed = secret_hashes.hash_password(password) if secret_hashes.needs_rehash(row["password"]) else ""

        def begin(connection: sql.Connection) -> str | SecondFactorNeeded | None:
            if not account_rows.password_unchanged(connection, row):
                return None
            login_throttle.clear_failures(connection, counted)
            if renewed:
                account_rows.update_account(connection, row, password=renewed)
            return pending_logins.begin_login(connection, self._now(), row, client, self._web)

        return _session_secret(self._write(begin) or raise_refused(WRONG_CREDENTIALS))

    @writes(Locking.ACCOUNTS)
    def log_in_as(
        self,
        connection: sql.Connection,
        identity: ExternalIdentity,
        default: Role | None = None,
        client: ClientInfo = UNKNOWN_CLIENT,
    ) -> str:
        """Return the secret of a session for a provider's identity, whose account is created at its first login.

        Issuer and subject identify the account; an equal name or e-mail address proves nothing.
        """
        now = self._now()
        row = provider_accounts.find_or_create(connection, now, identity, default)
        if row["disabled_at"]:
            raise AuthenticationFailed("this account is disabled: ask an admin")
        provider_accounts.apply_role(connection, now, row, identity)
        since = identity.authenticated_at
        return sessions.begin_session(connection, now, row, client, "provider", self._web, since)

    def accept_invitation(
        self, secret: str, name: str, password: str, client: ClientInfo = UNKNOWN_CLIENT
    ) -> str:
        """Use an invitation: set the password, end sessions and tokens, and return a session's secret."""
        find = partial(account_rows.find_invitation, now=self._now(), secret=secret)
        invited = self._session.read(lambda connection: find(connection)) or raise_refused(LINK_EXPIRED)
        account_name = invited.name or validate_name(name)
        account_rows.require_local_login(account_name, self._web)
        kept = self._hash_checked_password(password, account_name)

        def accept(connection: sql.Connection) -> str | SecondFactorNeeded | None:
            now = self._now()
            if not account_rows.find_invitation(connection, now, secret):
                return None
            row = account_rows.find_account(connection, account_name) if invited.name else None
            row = row or account_rows.add_account(connection, now, account_name, "admin")
            account_rows.delete_invitation(connection, invited.name)
            ended = account_rows.revoke_account_tokens(connection, now, row["account_id"])
            login_throttle.forget_browsers(connection, row["account_id"])
            add_audit_entry(connection, now, account_name, "account.accept", account_name, {"tokens": ended})
            _set_password(connection, row, kept)
            return pending_logins.begin_login(connection, now, row, client, self._web)

        return _session_secret(self._write(accept) or raise_refused(LINK_EXPIRED))

    @reads
    def pending(self, connection: sql.Connection, secret: str) -> PendingLogin | None:
        """Return the remaining steps of a pending login; None if it expired."""
        row = pending_logins.find_pending_login(connection, self._now(), secret)
        return pending_logins.remaining_login_steps(connection, row) if row else None

    def finish(self, secret: str, response: SecondFactorResponse, client: ClientInfo) -> str:
        """Finish a pending login with a second factor; return a new session's secret."""
        row = self._require_pending_login(secret)
        counted = (
            self._count_session_attempt(secret)
            if response.passkey
            else self._count_login_attempt("code", row["name"], client)
        )

        def finish(connection: sql.Connection) -> str | None:
            now = self._now()
            row = pending_logins.require_pending_login(connection, now, secret)
            sessions.save_challenge(connection, secret, "")
            proof = factor_rows.verify_second_factor(connection, now, row, response, row["challenge"])
            if proof is None:
                kind = "passkey" if response.passkey else "code"
                detail = {"address": client.address, "second factor": kind}
                add_audit_entry(connection, now, "unknown", "account.refused", row["name"], detail)
                return None
            login_throttle.clear_failures(connection, counted)
            pending_logins.delete_pending_login(connection, secret)
            return sessions.begin_session(connection, now, row, client, proof, self._web)

        return self._write(finish) or raise_refused(WRONG_FACTOR)

    def enroll_app(
        self, secret: str, app_secret: str, code: str, client: ClientInfo
    ) -> tuple[str, list[str]]:
        """Add the first authenticator app in a pending login; return a session's secret, and recovery codes."""
        row = self._require_pending_login(secret)
        counted = self._count_login_attempt("code", row["name"], client)

        def finish(connection: sql.Connection) -> tuple[str, list[str]]:
            now = self._now()
            row = pending_logins.require_pending_login(connection, now, secret)
            if factor_rows.read_factor_kinds(connection, row["account_id"]):
                raise_refused("this account has a second factor: show that one")
            label = "authenticator app"
            codes = factor_rows.add_totp_factor(connection, now, row, label, app_secret, code)
            add_audit_entry(connection, now, row["name"], "factor.add", row["name"], {"kind": "code"})
            login_throttle.clear_failures(connection, counted)
            pending_logins.delete_pending_login(connection, secret)
            return sessions.begin_session(connection, now, row, client, "code", self._web), codes

        return self._write(finish)

    @writes(Locking.ACCOUNTS)
    def begin_passkey(self, connection: sql.Connection, secret: str, party: RelyingParty) -> str:
        """Return the options (JSON) to ask a browser for a passkey, in a session or pending login."""
        now = self._now()
        row = sessions.find_session(connection, now, secret, self._web)
        row = row or pending_logins.require_pending_login(connection, now, secret)
        options, challenge = factor_rows.passkey_request_options(connection, row["account_id"], party)
        sessions.save_challenge(connection, secret, challenge)
        return options

    def reauthenticate(
        self, session: str, password: str = "", response: SecondFactorResponse | None = None
    ) -> None:
        """Authenticate again in a session: with a second factor, or with the password if the account has none."""
        row = self._require_session(session)
        counted = self._count_session_attempt(session)
        account_id = row["account_id"]
        kinds = self._session.read(lambda connection: factor_rows.read_factor_kinds(connection, account_id))
        right = not kinds and secret_hashes.verify_password(row["password"], password)

        def confirm(connection: sql.Connection) -> bool:
            now = self._now()
            challenge = sessions.require_session(connection, now, session, self._web)["challenge"]
            sessions.save_challenge(connection, session, "")
            proven = right and account_rows.password_unchanged(connection, row)
            if kinds and response:
                proof = factor_rows.verify_second_factor(connection, now, row, response, challenge)
                proven = proof is not None
            if not proven:
                detail = {"address": row["address"], "session": row["session_id"]}
                add_audit_entry(connection, now, "unknown", "account.refused", row["name"], detail)
                return False
            login_throttle.clear_failures(connection, counted)
            sessions.mark_reauthenticated(connection, now, row["digest"])
            return True

        if not self._write(confirm):
            raise_refused(WRONG_FACTOR if kinds else "the password is wrong")

    def change_password(
        self, session: str, old: str, new: str, client: ClientInfo, end_tokens: bool = True
    ) -> str:
        """Change a password, end all sessions and, with `end_tokens`, revoke tokens; return a new session's secret."""
        row = self._require_session(session)
        counted = self._count_session_attempt(session)
        if not secret_hashes.verify_password(row["password"], old):
            self._record_refusal(row["name"], {"address": client.address, "session": row["session_id"]})
            raise AuthenticationFailed(WRONG_CREDENTIALS)
        kept = self._hash_checked_password(new, row["name"])

        def change(connection: sql.Connection) -> str | None:
            now, account_id = self._now(), row["account_id"]
            if not account_rows.password_unchanged(connection, row):
                return None
            login_throttle.clear_failures(connection, counted)
            ended = account_rows.revoke_account_tokens(connection, now, account_id) if end_tokens else 0
            add_audit_entry(connection, now, row["name"], "account.password", row["name"], {"tokens": ended})
            _set_password(connection, row, kept)
            proven = row["proven_at"] if factor_rows.read_factor_kinds(connection, account_id) else now
            return sessions.begin_session(connection, now, row, client, row["proof"], self._web, proven)

        return self._write(change) or raise_refused(WRONG_CREDENTIALS)

    def remember_browser(self, session: str, device: str) -> str:
        """Return a new secret for the browser of a session; it replaces `device`, the previous secret, if any."""
        account_id = self._require_session(session)["account_id"]
        return self._write(
            lambda connection: login_throttle.remember_browser(connection, self._now(), account_id, device)
        )

    @writes(Locking.ACCOUNTS)
    def delete_expired(self, connection: sql.Connection) -> None:
        """Delete expired pending logins, counters of failures, and browsers that were not used for a long time."""
        pending_logins.delete_expired(connection, self._now())
        login_throttle.delete_expired_attempts(connection, self._now())
        login_throttle.delete_expired_browsers(connection, self._now())

    def _verify_credentials(
        self, name: str, password: str, where: ClientInfo
    ) -> tuple[Row, list[FailureCounter]]:
        """Return the account's row and the counters of the attempt. An unknown name takes as long as a known one."""
        counted = self._count_login_attempt("password", name, where)
        stored_name = name.strip().lower()
        row = self._session.read(lambda connection: account_rows.find_account(connection, stored_name))
        right = secret_hashes.verify_password(row["password"] if row else None, password)
        if (
            row
            and right
            and not row["disabled_at"]
            and not account_rows.is_local_login_disabled(row, self._web)
        ):
            return row, counted
        if row:
            self._record_refusal(row["name"], {"address": where.address})
        raise AuthenticationFailed(WRONG_CREDENTIALS)

    @writes(Locking.ACCOUNTS)
    def _count_login_attempt(
        self, connection: sql.Connection, what: CredentialKind, name: str, where: ClientInfo
    ) -> list[FailureCounter]:
        """Count an attempt before anything is verified. Raise TooManyAttempts during a delay."""
        now = self._now()
        row = account_rows.find_account(connection, name.strip().lower())
        known = login_throttle.is_known_browser(connection, now, row, where.device)
        counted = login_throttle.login_counters(what, name, where, known)
        login_throttle.reserve_attempts(connection, now, counted)
        return counted

    @writes(Locking.ACCOUNTS)
    def _count_session_attempt(self, connection: sql.Connection, secret: str) -> list[FailureCounter]:
        """Count an attempt of this session or pending login alone: failures elsewhere do not delay it."""
        counted = login_throttle.session_counters(secret_hashes.secret_digest(secret))
        login_throttle.reserve_attempts(connection, self._now(), counted)
        return counted

    @writes(Locking.ACCOUNTS)
    def _record_refusal(self, connection: sql.Connection, name: str, detail: dict[str, str]) -> None:
        add_audit_entry(connection, self._now(), "unknown", "account.refused", name, detail)

    @reads
    def _require_pending_login(self, connection: sql.Connection, secret: str) -> Row:
        return pending_logins.require_pending_login(connection, self._now(), secret)

    @reads
    def _require_session(self, connection: sql.Connection, secret: str) -> Row:
        return sessions.require_session(connection, self._now(), secret, self._web)

    def _hash_checked_password(self, password: str, name: str) -> str:
        """Return the hash of a new password. Raise FingerprintError if it is too easy to guess."""
        if weak := weak_password(password, name, f"{self._web.title} {self._web.public_url or ''}"):
            raise FingerprintError(weak)
        return secret_hashes.hash_password(password)


def _set_password(connection: sql.Connection, row: Row, kept: str) -> None:
    """Set a password, end sessions, and delete the invitation, which would set it again."""
    account_rows.update_account(connection, row, password=kept)
    account_rows.delete_account_sessions(connection, row["account_id"])
    account_rows.delete_invitation(connection, row["name"])


def _session_secret(admitted: str | SecondFactorNeeded) -> str:
    """Return a session's secret, or raise SecondFactorNeeded once the pending login is saved."""
    if isinstance(admitted, SecondFactorNeeded):
        raise admitted
    return admitted
