"""Accounts of the web app: roles, sessions, second factors, tokens, invitations.

Example:
    >>> role_includes("analyst", "viewer"), role_includes("analyst", "engineer")
    (True, False)
    >>> token_role("admin", ("read",))
    'viewer'

Each role includes the ones before it: a *viewer* reads; an *analyst* decides, assigns, writes notes and saves views; an
*engineer* suppresses, sets thresholds and reads the audit; an *admin* manages accounts, all tokens and retention. The *secret* of
a session, a token or an invitation is 256 random bits: the client sends it, the store keeps only its digest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from fingerprint.core.errors import FingerprintError

Role = Literal["viewer", "analyst", "engineer", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)  # lowest first
Scope = Literal["read", "triage", "engineer", "admin"]
# The highest role of a token with this scope
SCOPES: dict[Scope, Role] = dict(zip(get_args(Scope), ROLES, strict=True))

LINK_EXPIRED = "this link was used, or is older than a day: ask for another"  # of an invitation
ACCOUNT_NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
MAX_TOKEN_DAYS = 366
NAME_RULE = (
    "Small letters, digits and . _ @ + -, up to 64, for example ola.nordmann. A name cannot be changed later."
)
RECENT_PROOF = timedelta(minutes=10)  # age up to which a proof of identity counts as fresh

ProofKind = Literal["password", "code", "recovery code", "passkey", "provider"]  # proof that opened a session
FactorKind = Literal["code", "passkey"]


class AuthenticationFailed(FingerprintError):
    """Raised if a login is refused, for good or for now; the message may be shown to anyone."""


class TooManyAttempts(AuthenticationFailed):
    """Raised if too many attempts failed: even the right password is refused for `seconds`."""

    def __init__(self, seconds: int) -> None:
        unit, count = ("minute", -(-seconds // 60)) if seconds > 90 else ("second", seconds)
        super().__init__(f"too many attempts failed; try again in {count} {unit}{'s' if count != 1 else ''}")
        self.seconds = seconds


class SecondFactorNeeded(AuthenticationFailed):
    """Raised if the password is right and a second factor is still needed; `login` is the secret of the pending login."""

    def __init__(self, login: str) -> None:
        super().__init__("a second factor is needed")
        self.login = login


@dataclass(frozen=True, slots=True)
class Account:
    """A person's account. The audit records its `name` for ever, so a name is never given to another person.

    A person from an OpenID provider is identified by `issuer` and `subject` alone, never by a name or an e-mail address.
    """

    account_id: str
    name: str
    role: Role
    created_at: datetime
    disabled_at: datetime | None = None
    last_login: datetime | None = None
    issuer: str = ""
    subject: str = ""
    has_password: bool = False

    @property
    def is_invited(self) -> bool:
        """Return whether the account waits for its first password."""
        return not self.has_password and not self.subject

    @property
    def is_active(self) -> bool:
        """Return whether the account is not disabled; it may still be invited."""
        return self.disabled_at is None

    @property
    def is_assignable(self) -> bool:
        """Return whether alerts can be assigned to the account: it is active and its role may decide alerts."""
        return self.is_active and role_includes(self.role, "analyst")


@dataclass(frozen=True, slots=True)
class ExternalIdentity:
    """The identity that an OpenID provider asserts.

    `role` is mapped from a claim; it is None if roles are given in the web app. `authenticated_at` is when the provider last
    asked for a proof (`auth_time`), None if it does not say.
    """

    issuer: str
    subject: str
    name: str
    role: Role | None = None
    authenticated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """The client of a login: its address, its user agent, and the secret of a device that logged in before."""

    address: str = ""
    agent: str = ""
    device: str = ""


@dataclass(frozen=True, slots=True)
class LoginSession:
    """A session as its owner sees it.

    `proven_at` is when its owner last gave a password, a second factor or a fresh login at the provider; None if unknown.
    """

    session_id: str
    owner: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    address: str
    agent: str
    proof: ProofKind
    proven_at: datetime | None

    def is_proven(self, now: datetime) -> bool:
        """Return whether its owner proved their identity within the last ten minutes."""
        return self.proven_at is not None and now - self.proven_at < RECENT_PROOF


@dataclass(frozen=True, slots=True)
class SecondFactor:
    """A second factor: an authenticator app's codes (`code`), or a passkey."""

    factor_id: str
    kind: FactorKind
    label: str
    created_at: datetime
    last_used: datetime | None = None


@dataclass(frozen=True, slots=True)
class PendingLogin:
    """A login with the right password that still needs a second factor; if `kinds` is empty, one must be set up now."""

    name: str
    kinds: tuple[FactorKind, ...]


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """The web app to which WebAuthn binds a passkey: origin `https://alerts.example.com`, id `alerts.example.com`."""

    origin: str
    rp_id: str


@dataclass(frozen=True, slots=True)
class SecondFactorResponse:
    """A person's response: a code (of an app, or for recovery), or a passkey's answer to the challenge, as JSON."""

    code: str = ""
    passkey: str = ""
    party: RelyingParty | None = None


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A program's substitute for a password, with at most the rights of its owner and of its scopes."""

    token_id: str
    owner: str
    label: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    expires_at: datetime
    last_used: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Invitation:
    """A link that sets a first or a new password, once. The first admin's has no name: that person chooses one."""

    name: str
    expires_at: datetime


def role_includes(role: Role, needed: Role) -> bool:
    """Return whether `role` has all rights of `needed`."""
    return ROLES.index(role) >= ROLES.index(needed)


def token_role(owner: Role, scopes: tuple[Scope, ...]) -> Role:
    """Return the role of a token: the highest of its scopes, capped by its owner's. Raise FingerprintError without a scope."""
    if not scopes:
        raise FingerprintError("a token needs a scope: read, triage, engineer or admin")
    widest = max((SCOPES[scope] for scope in scopes), key=ROLES.index)
    return min(owner, widest, key=ROLES.index)


def validate_name(name: str) -> str:
    """Return a name in small letters, as it is stored. Raise FingerprintError if it breaks the rule for names."""
    kept = name.strip().lower()
    if not ACCOUNT_NAME_PATTERN.fullmatch(kept):
        raise FingerprintError(
            "a name has 1 to 64 of the letters a to z, digits and . _ @ + -, and begins with a letter or digit"
        )
    return kept


def derive_name(external_name: str) -> str:
    """Return an account name made from a provider's name: characters that are not allowed become a dash."""
    return re.sub(r"[^a-z0-9._@+-]+", "-", external_name.lower()).strip("._@+-")[:50] or "person"
