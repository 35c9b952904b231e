"""Ports of accounts: those stored here, and an OpenID provider that identifies others.

Example:
    >>> secret = store.logins.log_in("maria", "four plain english words", ClientInfo("192.0.2.7"))
    >>> store.sessions.authenticate(secret).role
    'analyst'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from fingerprint.core.account import (
    AccessToken,
    Account,
    ClientInfo,
    ExternalIdentity,
    FactorKind,
    Invitation,
    LoginSession,
    PendingLogin,
    RelyingParty,
    Role,
    Scope,
    SecondFactor,
    SecondFactorResponse,
)


class AccountRepository(Protocol):
    """Accounts and invitations. There is always an admin: the last one can be neither disabled nor given another role."""

    def list_all(self) -> list[Account]:
        """Return all accounts, by name."""
        ...

    def get(self, name: str) -> Account:
        """Return an account. Raise NotFound where there is none."""
        ...

    def create_first_invitation(self) -> str | None:
        """Return the secret of the first admin's invitation in place of the one before; None where there is an admin."""
        ...

    def awaits_first_account(self) -> bool:
        """Return whether there is no admin yet who could log in or invite: the first invitation makes one."""
        ...

    def invitation(self, secret: str) -> Invitation | None:
        """Return an invitation by its secret; None for one that is unknown, used, too old, or no longer needed."""
        ...

    def invite(self, name: str, role: Role | None, by: str) -> str:
        """Return an invitation's secret: for a new account with a role, or for a new password of an existing one (role None).

        Raise FingerprintError where the account exists already, or does not, or comes from a provider.
        """
        ...

    def set_role(self, name: str, role: Role, by: str) -> None:
        """Change the role of an account, and end its sessions."""
        ...

    def disable(self, name: str, by: str) -> None:
        """Disable an account, end its sessions, and revoke its tokens and invitation."""
        ...

    def enable(self, name: str, by: str) -> None:
        """Enable an account; its tokens stay revoked."""
        ...

    def delete_expired(self) -> None:
        """Delete expired invitations."""
        ...


class LoginRepository(Protocol):
    """Logins, and authenticating again in a session; every attempt is counted before anything is verified.

    A *pending login* is one whose password was right and that still needs a second factor.
    """

    def log_in(self, name: str, password: str, client: ClientInfo) -> str:
        """Return a new session's secret.

        Raise AuthenticationFailed, with the same sentence after the same time whatever was wrong; TooManyAttempts inside a delay;
        SecondFactorNeeded where the password is right and not enough.
        """
        ...

    def log_in_as(
        self, identity: ExternalIdentity, default: Role | None = None, client: ClientInfo = ...
    ) -> str:
        """Return the secret of a session for a provider's identity; create an account of the role `default` where there is none.

        Raise AuthenticationFailed without a role, and for a disabled account.
        """
        ...

    def accept_invitation(self, secret: str, name: str, password: str, client: ClientInfo = ...) -> str:
        """Use an invitation: set the password, end sessions and tokens, and return a session's secret.

        `name` counts only where the invitation has none. Raise AuthenticationFailed for one that is no longer valid;
        FingerprintError for a weak password, which does not use it up; SecondFactorNeeded where the password is not enough.
        """
        ...

    def pending(self, secret: str) -> PendingLogin | None:
        """Return what a pending login still needs; None for one that expired."""
        ...

    def finish(self, secret: str, response: SecondFactorResponse, client: ClientInfo) -> str:
        """Finish a pending login with a second factor; return a new session's secret.

        Raise AuthenticationFailed for what is wrong, was used before, or comes too late; TooManyAttempts inside a delay.
        """
        ...

    def enroll_app(
        self, secret: str, app_secret: str, code: str, client: ClientInfo
    ) -> tuple[str, list[str]]:
        """Add the first authenticator app in a pending login; return a session's secret, and recovery codes."""
        ...

    def begin_passkey(self, secret: str, party: RelyingParty) -> str:
        """Return the options with which a browser is asked for a passkey, as JSON, in a session or pending login."""
        ...

    def reauthenticate(
        self, session: str, password: str = "", response: SecondFactorResponse | None = None
    ) -> None:
        """Authenticate again in a session: with a second factor, or with the password where there is none.

        Raise AuthenticationFailed, TooManyAttempts.
        """
        ...

    def change_password(
        self, session: str, old: str, new: str, client: ClientInfo, end_tokens: bool = True
    ) -> str:
        """Change a password, end all sessions and, with `end_tokens`, revoke tokens; return a new session's secret.

        Raise AuthenticationFailed for a wrong password, TooManyAttempts after failures of this session.
        """
        ...

    def remember_browser(self, session: str, device: str) -> str:
        """Return a new secret for the browser of a new session, in place of the one it had (or none)."""
        ...

    def delete_expired(self) -> None:
        """Delete expired pending logins, counters of failures, and browsers that were not used for long."""
        ...


class SessionRepository(Protocol):
    """Live sessions: neither idle for too long, nor too old, nor ended, nor of a disabled account."""

    def get(self, secret: str) -> LoginSession | None:
        """Return a live session by its secret, None without one."""
        ...

    def of_account(self, name: str) -> list[LoginSession]:
        """Return the live sessions of an account, the one used last first."""
        ...

    def authenticate(self, secret: str, is_activity: bool = True) -> Account | None:
        """Return the account of a live session, and record that it was used.

        Without `is_activity`, a request that the page makes by itself, the session stays as idle as before.
        """
        ...

    def log_out(self, secret: str) -> None:
        """End a session by its secret; an unknown one is no error."""
        ...

    def end(self, session_id: str, by: str, owner: str | None = None) -> None:
        """End a session by its id. Raise NotFound where there is none, or, with `owner`, none of that account."""
        ...

    def end_others(self, name: str, secret: str) -> int:
        """End all sessions of an account but the one of this secret; return how many there were."""
        ...

    def end_all(self, name: str, by: str) -> None:
        """End sessions and tokens of an account, and forget its browsers."""
        ...

    def delete_expired(self) -> None:
        """Delete sessions that were idle for too long or are too old."""
        ...


class TokenRepository(Protocol):
    """Access tokens, which programs send in place of a password."""

    def create(
        self, owner: str, label: str, scopes: Sequence[Scope], expires_at: datetime, by: str
    ) -> tuple[AccessToken, str]:
        """Create a token; return it with its secret, which is never shown again."""
        ...

    def list_all(self, owner: str | None = None) -> list[AccessToken]:
        """Return the tokens of one account, or all; revoked and expired ones too, the newest first."""
        ...

    def revoke(self, token_id: str, by: str, owner: str | None = None) -> None:
        """Revoke a token. Raise NotFound where there is none, or, with `owner`, none of that account."""
        ...

    def authenticate(self, secret: str) -> tuple[Account, AccessToken] | None:
        """Return the account and the token of a secret, if it is alive."""
        ...


class SecondFactorRepository(Protocol):
    """Second factors of accounts with a password here."""

    def new_authenticator_app(self, name: str, secret: str = "") -> tuple[str, str]:
        """Return the secret of an authenticator app, a new one if none is given, and the URI of its QR code."""
        ...

    def add_authenticator_app(self, session: str, label: str, secret: str, code: str) -> list[str]:
        """Add an app; return recovery codes, if it is the first factor. Raise FingerprintError for a wrong code."""
        ...

    def begin_passkey_registration(self, session: str, party: RelyingParty) -> str:
        """Return the options with which a browser is asked to make a passkey, as JSON."""
        ...

    def add_passkey(self, session: str, label: str, answer: str, party: RelyingParty) -> list[str]:
        """Add a passkey; return recovery codes, if it is the first factor. Raise FingerprintError for an invalid answer."""
        ...

    def of_account(self, name: str) -> list[SecondFactor]:
        """Return the factors of an account, the oldest first."""
        ...

    def kinds(self, name: str) -> tuple[FactorKind, ...]:
        """Return the kinds of factors an account has."""
        ...

    def recovery_codes_left(self, name: str) -> int:
        """Return how many recovery codes are left."""
        ...

    def new_recovery_codes(self, session: str) -> list[str]:
        """Return new recovery codes in place of those before."""
        ...

    def remove(self, session: str, factor_id: str) -> None:
        """Remove a factor.

        Raise NotFound where it is not the account's; FingerprintError for the last one where one is required.
        """
        ...

    def reset(self, name: str, by: str) -> None:
        """Remove all factors of an account, and end its sessions."""
        ...

    def account_names(self) -> frozenset[str]:
        """Return the names of accounts with a second factor."""
        ...


@dataclass(frozen=True)
class AccountStore:
    """The repositories of accounts, one a noun. Every change has its line in the audit log, in the same transaction.

    Secrets are returned once and stored as digests. A disabled account has neither session nor token from that moment on.
    """

    accounts: AccountRepository
    logins: LoginRepository
    sessions: SessionRepository
    tokens: TokenRepository
    second_factors: SecondFactorRepository

    def delete_expired(self) -> None:
        """Delete expired invitations, logins and sessions; tokens stay listed."""
        for repository in (self.accounts, self.logins, self.sessions):
            repository.delete_expired()


class IdentityProvider(Protocol):
    """An OpenID provider: authorization code flow with PKCE. One secret in the browser identifies one login."""

    def authorization_url(self, secret: str, redirect_url: str, force_login: bool = False) -> str:
        """Return where the browser is sent; with `force_login` the provider authenticates known users, too.

        `redirect_url` is our own address that the provider sends the browser back to. Raise FingerprintError where the provider
        does not answer, or is not the configured one.
        """
        ...

    def authenticate(self, secret: str, state: str, code: str, redirect_url: str) -> ExternalIdentity:
        """Return who logged in. Raise AuthenticationFailed for one that this browser did not begin, or that proves nothing."""
        ...
