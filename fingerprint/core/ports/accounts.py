"""Ports of accounts: the repositories of stored accounts, and an OpenID provider.

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
        """Return an account. Raise NotFound if there is none."""
        ...

    def create_first_invitation(self) -> str | None:
        """Return the secret of a new invitation for the first admin; earlier ones stay valid.

        Return None if there is an admin, or if the provider makes all accounts.
        """
        ...

    def awaits_first_account(self) -> bool:
        """Return whether no admin can log in yet, so that the first invitation must make one."""
        ...

    def invitation(self, secret: str) -> Invitation | None:
        """Return an invitation by its secret; None if it is unknown, used, expired or no longer needed."""
        ...

    def invite(self, name: str, role: Role | None, by: str) -> str:
        """Return an invitation's secret: for a new account with `role`, or (None) for a new password of an existing account.

        Raise FingerprintError if a new account exists already, or an existing one does not or comes from a provider.
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
    """Logins, and repeated authentication in a session. Every attempt is counted before anything is verified.

    A *pending login* has the right password and still needs a second factor.
    """

    def log_in(self, name: str, password: str, client: ClientInfo) -> str:
        """Return a new session's secret.

        Raise AuthenticationFailed, with the same sentence and after the same time for every cause; TooManyAttempts during a
        delay; SecondFactorNeeded if the password is right and a second factor is needed.
        """
        ...

    def log_in_as(
        self, identity: ExternalIdentity, default: Role | None = None, client: ClientInfo = ...
    ) -> str:
        """Return the secret of a session for a provider's identity; if it has no account, create one with the role `default`.

        Raise AuthenticationFailed without a role, and for a disabled account.
        """
        ...

    def accept_invitation(self, secret: str, name: str, password: str, client: ClientInfo = ...) -> str:
        """Use an invitation: set the password, end sessions and tokens, and return a session's secret.

        `name` counts only if the invitation has none. Raise AuthenticationFailed if the invitation is no longer valid;
        FingerprintError for a weak password, which does not use it up; SecondFactorNeeded if a second factor is needed.
        """
        ...

    def pending(self, secret: str) -> PendingLogin | None:
        """Return the remaining steps of a pending login; None if it expired."""
        ...

    def finish(self, secret: str, response: SecondFactorResponse, client: ClientInfo) -> str:
        """Finish a pending login with a second factor; return a new session's secret.

        Raise AuthenticationFailed if the response is wrong, was used before, or comes too late; TooManyAttempts during a delay.
        """
        ...

    def enroll_app(
        self, secret: str, app_secret: str, code: str, client: ClientInfo
    ) -> tuple[str, list[str]]:
        """Add the first authenticator app in a pending login; return a session's secret, and recovery codes."""
        ...

    def begin_passkey(self, secret: str, party: RelyingParty) -> str:
        """Return the options (JSON) to ask a browser for a passkey, in a session or pending login."""
        ...

    def reauthenticate(
        self, session: str, password: str = "", response: SecondFactorResponse | None = None
    ) -> None:
        """Authenticate again in a session: with a second factor, or with the password if the account has none.

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
        """Return a new secret for the browser of a new session; it replaces `device`, the browser's previous secret, if any."""
        ...

    def delete_expired(self) -> None:
        """Delete expired pending logins, counters of failures, and browsers that were not used for a long time."""
        ...


class SessionRepository(Protocol):
    """Live sessions: those that are not idle for too long, too old, ended, or of a disabled account."""

    def get(self, secret: str) -> LoginSession | None:
        """Return a live session by its secret, None without one."""
        ...

    def of_account(self, name: str) -> list[LoginSession]:
        """Return the live sessions of an account, the one used last first."""
        ...

    def authenticate(self, secret: str, is_activity: bool = True) -> Account | None:
        """Return the account of a live session, and record that the session was used.

        A request that the page makes by itself is not `is_activity`: the session's idle time goes on.
        """
        ...

    def log_out(self, secret: str) -> None:
        """End a session by its secret; an unknown one is no error."""
        ...

    def end(self, session_id: str, by: str, owner: str | None = None) -> None:
        """End a session by its id. Raise NotFound if there is none, or with `owner` if it is not that account's."""
        ...

    def end_others(self, name: str, secret: str) -> int:
        """End all sessions of an account except the one of this secret; return their number."""
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
        """Revoke a token. Raise NotFound if there is none, or with `owner` if it is not that account's."""
        ...

    def authenticate(self, secret: str) -> tuple[Account, AccessToken] | None:
        """Return the account and the token of a secret; None if the token is not valid."""
        ...


class SecondFactorRepository(Protocol):
    """Second factors of accounts with a password here."""

    def new_authenticator_app(self, name: str, secret: str = "") -> tuple[str, str]:
        """Return the secret of an authenticator app (a new one if none is given) and the URI for its QR code."""
        ...

    def add_authenticator_app(self, session: str, label: str, secret: str, code: str) -> list[str]:
        """Add an app; return recovery codes if it is the first factor. Raise FingerprintError for a wrong code."""
        ...

    def begin_passkey_registration(self, session: str, party: RelyingParty) -> str:
        """Return the options (JSON) to ask a browser for a new passkey."""
        ...

    def add_passkey(self, session: str, label: str, answer: str, party: RelyingParty) -> list[str]:
        """Add a passkey; return recovery codes if it is the first factor. Raise FingerprintError for an invalid answer."""
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

        Raise NotFound if it is not the account's; FingerprintError if it is the last one and one is required.
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
    """The repositories of accounts. Every change and its line in the audit log are one transaction.

    Secrets are returned once and stored as digests. When an account is disabled, its sessions and tokens end at once.
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
    """An OpenID provider: authorization code flow with PKCE. A secret in the browser identifies the login."""

    def authorization_url(self, secret: str, redirect_url: str, force_login: bool = False) -> str:
        """Return the URL that the browser is sent to; with `force_login` the provider also authenticates users it knows.

        `redirect_url` is our own address, to which the provider sends the browser back. Raise FingerprintError if the provider
        does not answer, or is not the configured one.
        """
        ...

    def authenticate(self, secret: str, state: str, code: str, redirect_url: str) -> ExternalIdentity:
        """Return the identity that logged in.

        Raise AuthenticationFailed for a login that this browser did not begin, or that proves nothing.
        """
        ...
