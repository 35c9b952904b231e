"""Second factors of accounts with a password here: set up, listed and removed in a session.

Example:
    >>> secret, address = store.second_factors.new_authenticator_app("maria")     # the address is what the QR code holds
    >>> store.second_factors.add_authenticator_app(session, "telephone", secret, "492039")
    ['JBSW-Y3DP-EHPK-3PXP', ...]
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.core.account import FactorKind, RelyingParty, SecondFactor
from fingerprint.core.errors import FingerprintError
from fingerprint.store import account_rows, factor_rows, sessions
from fingerprint.store.account_rows import AccountTable
from fingerprint.store.audit import add_audit_entry
from fingerprint.store.database import Locking, reads, writes
from fingerprint.store.schema import Row


class SqlSecondFactorRepository(AccountTable):
    """Second factors; each change and its line in the audit are one transaction."""

    def new_authenticator_app(self, name: str, secret: str = "") -> tuple[str, str]:
        """Return the secret of an authenticator app (a new one if none is given) and the URI for its QR code."""
        made = secret if factor_rows.TOTP_SECRET_PATTERN.fullmatch(secret) else factor_rows.new_totp_secret()
        return made, factor_rows.totp_uri(made, name, self._web.title)

    @writes(Locking.ACCOUNTS)
    def add_authenticator_app(
        self, connection: sql.Connection, session: str, label: str, secret: str, code: str
    ) -> list[str]:
        """Add an app; return recovery codes, if it is the first factor. Raise FingerprintError for a wrong code."""
        now, row = self._now(), self._require_local_session(connection, session)
        codes = factor_rows.add_totp_factor(connection, now, row, label, secret, code)
        add_audit_entry(connection, now, row["name"], "factor.add", row["name"], {"kind": "code"})
        return codes

    @writes(Locking.ACCOUNTS)
    def begin_passkey_registration(
        self, connection: sql.Connection, session: str, party: RelyingParty
    ) -> str:
        """Return the options (JSON) to ask a browser for a new passkey."""
        row = self._require_local_session(connection, session)
        options, challenge = factor_rows.passkey_registration_options(connection, row, party, self._web.title)
        sessions.save_challenge(connection, session, challenge)
        return options

    @writes(Locking.ACCOUNTS)
    def add_passkey(
        self, connection: sql.Connection, session: str, label: str, answer: str, party: RelyingParty
    ) -> list[str]:
        """Add a passkey; return recovery codes, if it is the first factor. Raise FingerprintError for an invalid answer."""
        now, row = self._now(), self._require_local_session(connection, session)
        sessions.save_challenge(connection, session, "")
        codes = factor_rows.add_passkey_factor(connection, now, row, label, answer, row["challenge"], party)
        add_audit_entry(connection, now, row["name"], "factor.add", row["name"], {"kind": "passkey"})
        return codes

    @reads
    def of_account(self, connection: sql.Connection, name: str) -> list[SecondFactor]:
        """Return the factors of an account, the oldest first."""
        row = account_rows.require_account(connection, name)
        return factor_rows.read_factors(connection, row["account_id"])

    @reads
    def kinds(self, connection: sql.Connection, name: str) -> tuple[FactorKind, ...]:
        """Return the kinds of factors an account has, sorted."""
        row = account_rows.require_account(connection, name)
        return factor_rows.read_factor_kinds(connection, row["account_id"])

    @reads
    def recovery_codes_left(self, connection: sql.Connection, name: str) -> int:
        """Return the number of unused recovery codes."""
        row = account_rows.require_account(connection, name)
        return factor_rows.count_recovery_codes(connection, row["account_id"])

    @writes(Locking.ACCOUNTS)
    def new_recovery_codes(self, connection: sql.Connection, session: str) -> list[str]:
        """Return new recovery codes, which replace earlier ones. Raise FingerprintError without a second factor."""
        now, row = self._now(), self._require_local_session(connection, session)
        if not factor_rows.read_factor_kinds(connection, row["account_id"]):
            raise FingerprintError("recovery codes stand in for a second factor: add one first")
        add_audit_entry(connection, now, row["name"], "factor.recovery_codes", row["name"])
        return factor_rows.replace_recovery_codes(connection, now, row["account_id"])

    @writes(Locking.ACCOUNTS)
    def remove(self, connection: sql.Connection, session: str, factor_id: str) -> None:
        """Remove a factor. Raise NotFound if it is not the account's; FingerprintError if it is the last one and required."""
        now, row = self._now(), self._require_local_session(connection, session)
        count = len(factor_rows.read_factors(connection, row["account_id"]))
        if self._web.second_factor == "required" and count < 2:
            raise FingerprintError("a second factor is required here: add another before you remove this one")
        gone = factor_rows.remove_factor(connection, row["account_id"], factor_id)
        add_audit_entry(connection, now, row["name"], "factor.remove", row["name"], {"kind": gone.kind})

    @writes(Locking.ACCOUNTS)
    def reset(self, connection: sql.Connection, name: str, by: str) -> None:
        """Remove all factors of an account, and end its sessions."""
        row = account_rows.require_account(connection, name)
        factor_rows.remove_all_factors(connection, row["account_id"])
        account_rows.delete_account_sessions(connection, row["account_id"])
        add_audit_entry(connection, self._now(), by, "factor.reset", name)

    @reads
    def account_names(self, connection: sql.Connection) -> frozenset[str]:
        """Return the names of accounts with a second factor."""
        return factor_rows.names_with_second_factor(connection)

    def _require_local_session(self, connection: sql.Connection, session: str) -> Row:
        """Return the row of a session whose account has a password here."""
        row = sessions.require_session(connection, self._now(), session, self._web)
        if row["subject"]:
            raise FingerprintError(
                f"{row['name']} logs in at {row['issuer']}: a second factor is set up there"
            )
        return row
