"""Who may work at the desk, as protocols: the accounts it keeps, and a provider that vouches for others.

Example:
    >>> secret = people.enter("maria", "four plain english words", Where("192.0.2.7"))
    >>> people.who(secret).role
    'analyst'
"""

from __future__ import annotations

from collections.abc import Sequence
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


class SecondFactorStore(Protocol):
    """Second factors of accounts with a password here, and proving again who one is."""

    def pending_login(self, secret: str) -> PendingLogin | None:
        """What a login under way still takes; None for one that is over."""
        ...

    def finish_login(self, secret: str, response: SecondFactorResponse, client: ClientInfo) -> str:
        """A new session's secret. Refused for what is wrong, was used before, or comes too late; TooMany inside a delay."""
        ...

    def enroll_at_login(
        self, secret: str, app_secret: str, code: str, client: ClientInfo
    ) -> tuple[str, list[str]]:
        """Set up the first authenticator app in a login under way; a session's secret, and recovery codes."""
        ...

    def reauthenticate(
        self, session: str, password: str = "", response: SecondFactorResponse | None = None
    ) -> None:
        """Prove again whose session it is: with a second factor, or with the password where there is none. Refused, TooMany."""
        ...

    def begin_passkey_login(self, secret: str, party: RelyingParty) -> str:
        """What a browser is asked with for a passkey, as JSON, in a session or in a login under way."""
        ...

    def begin_passkey_registration(self, session: str, party: RelyingParty) -> str:
        """What a browser is asked with to make a passkey, as JSON."""
        ...

    def add_passkey(self, session: str, label: str, answer: str, party: RelyingParty) -> list[str]:
        """Recovery codes, if it is the first factor. FingerprintError for an answer that is none."""
        ...

    def new_authenticator_app(self, name: str, secret: str = "") -> tuple[str, str]:
        """The secret of an authenticator app, a new one if none is given, and the address that its QR code says."""
        ...

    def add_authenticator_app(self, session: str, label: str, secret: str, code: str) -> list[str]:
        """Recovery codes, if it is the first factor. FingerprintError for a code that is not the app's."""
        ...

    def factors(self, name: str) -> list[SecondFactor]:
        """Of a person, the oldest first."""
        ...

    def factor_kinds(self, name: str) -> tuple[FactorKind, ...]:
        """Which kinds a person has."""
        ...

    def recovery_codes_left(self, name: str) -> int: ...

    def new_recovery_codes(self, session: str) -> list[str]:
        """Those before are no longer good."""
        ...

    def remove_factor(self, session: str, factor_id: str) -> None:
        """NotThere where it is not theirs; FingerprintError for the last one where one is required."""
        ...

    def reset_factors(self, name: str, by: str) -> None:
        """Remove all factors of a person, whose sessions end."""
        ...

    def accounts_with_second_factor(self) -> frozenset[str]:
        """The names of those who have one."""
        ...


class AccountStore(SecondFactorStore, Protocol):
    """Accounts, sessions, tokens and invitations. Every change has its line in the audit, in the same transaction.

    Secrets are given once and kept as digests. Whoever is disabled has neither session nor token from that moment on. There is
    always an admin: the last one can be neither disabled nor given another role.
    """

    def log_in(self, name: str, password: str, client: ClientInfo) -> str:
        """A new session's secret. Refused, with the same sentence whatever was wrong, after the same time; TooMany inside a
        delay, wherever the failures were counted; SecondFactorNeeded where the password is right and not enough."""
        ...

    def log_in_as(
        self, identity: ExternalIdentity, default: Role | None = None, client: ClientInfo = ...
    ) -> str:
        """A session for whom a provider vouches; an account of the role `default` is made where there is none. Refused
        without a role, and for whoever is disabled."""
        ...

    def remember_browser(self, session: str, device: str) -> str:
        """A new secret for the browser in which somebody just logged in, in place of the one it had (or none)."""
        ...

    def session(self, secret: str) -> LoginSession | None:
        """A session that is alive."""
        ...

    def sessions(self, name: str) -> list[LoginSession]:
        """Of a person, those that are alive, the one seen last first."""
        ...

    def end_session(self, session_id: str, by: str, owner: str | None = None) -> None:
        """NotThere where there is none, or, with `owner`, none of that person."""
        ...

    def end_all_sessions(self, name: str, by: str) -> None:
        """End sessions and tokens of a person, and know no browser of theirs any more."""
        ...

    def log_out(self, secret: str) -> None:
        """End a session; an unknown one is no error."""
        ...

    def end_other_sessions(self, name: str, secret: str) -> int:
        """End all sessions of a person but this one; how many there were."""
        ...

    def authenticate_session(self, secret: str, is_activity: bool = True) -> Account | None:
        """Whose session it is, if it is alive: neither idle for too long, nor too old, nor ended. Not `awake`: the page asks
        by itself, and the session is as idle as before."""
        ...

    def authenticate_token(self, secret: str) -> tuple[Account, AccessToken] | None:
        """Whose token it is, if it is alive."""
        ...

    def create_first_invitation(self) -> str | None:
        """The secret of the first admin's invitation; None where there is an admin. The one before is no longer good."""
        ...

    def invitation(self, secret: str) -> Invitation | None:
        """What a link is good for; None for one that is unknown, used, too old, or no longer needed."""
        ...

    def accept_invitation(self, secret: str, name: str, password: str, client: ClientInfo = ...) -> str:
        """Use an invitation: sets the password, ends sessions and tokens, and gives a session's secret. `name` counts only
        where the invitation has none. Refused for a link that is no longer good; FingerprintError for a weak password, which
        does not use it up; SecondFactorNeeded where the password is set and not enough."""
        ...

    def accounts(self) -> list[Account]:
        """By name."""
        ...

    def account(self, name: str) -> Account:
        """NotThere where there is none."""
        ...

    def invite(self, name: str, role: Role | None, by: str) -> str:
        """An invitation's secret: for a new account with a role, or for a new password of an account that is there (role
        None). FingerprintError where the account is there already, or is not, or comes from a provider."""
        ...

    def set_role(self, name: str, role: Role, by: str) -> None:
        """The person's sessions end."""
        ...

    def disable(self, name: str, by: str) -> None:
        """Sessions end, tokens and invitations are revoked."""
        ...

    def enable(self, name: str, by: str) -> None: ...

    def change_password(
        self, session: str, old: str, new: str, client: ClientInfo, end_tokens: bool = True
    ) -> str:
        """Ends all sessions of the person, and their tokens unless told not to; gives a new session's secret. Refused, and
        TooMany after failures of this session."""
        ...

    def create_token(
        self, owner: str, label: str, scopes: Sequence[Scope], expires_at: datetime, by: str
    ) -> tuple[AccessToken, str]:
        """A token and its secret, which is never shown again."""
        ...

    def tokens(self, owner: str | None = None) -> list[AccessToken]:
        """Of one person, or all; revoked and expired ones too, the newest first."""
        ...

    def revoke_token(self, token_id: str, by: str, owner: str | None = None) -> None:
        """NotThere where there is none, or, with `owner`, none of that person."""
        ...

    def delete_expired(self) -> None:
        """Drop sessions, logins, attempts, devices and invitations that are over."""
        ...


class IdentityProvider(Protocol):
    """An OpenID provider: authorization code flow with PKCE. One secret of the browser's carries one login through."""

    def authorization_url(self, secret: str, redirect_url: str, force_login: bool = False) -> str:
        """Where the browser is sent; with `again` the provider is to ask for a proof of whom it knows, too. `back` is our
        own address that the provider sends it back to. FingerprintError where the provider does not answer, or is not who it
        should be."""
        ...

    def authenticate(self, secret: str, state: str, code: str, redirect_url: str) -> ExternalIdentity:
        """Who came back. Refused for a login that this browser did not begin, or that proves nothing."""
        ...
