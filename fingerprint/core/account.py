"""Accounts of the web app: roles, sessions, second factors, tokens, invitations.

Example:
    >>> role_includes("analyst", "viewer"), role_includes("analyst", "engineer")
    (True, False)
    >>> token_role("admin", ("read",))
    'viewer'

Roles rise: a *viewer* reads; an *analyst* decides, assigns, notes and saves views; an *engineer* suppresses, sets thresholds
and reads the audit; an *admin* manages accounts, all tokens and retention. A *secret* is 256 random bits that one side shows
and the other keeps only as a digest: of a session, a token, an invitation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from fingerprint.core.errors import FingerprintError

Role = Literal["viewer", "analyst", "engineer", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)  # rising
Scope = Literal["read", "triage", "engineer", "admin"]
# What a token of this scope may at most
SCOPES: dict[Scope, Role] = dict(zip(get_args(Scope), ROLES, strict=True))

LINK_EXPIRED = "this link was used, or is older than a day: ask for another"  # of an invitation
ACCOUNT_NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
MAX_TOKEN_DAYS = 366
NAME_RULE = (
    "Small letters, digits and . _ @ + -, up to 64, for example ola.nordmann. A name cannot be changed later."
)
RECENT_PROOF = timedelta(minutes=10)  # that a proof of identity counts for what needs a fresh one

ProofKind = Literal["password", "code", "recovery code", "passkey", "provider"]  # what opened a session
FactorKind = Literal["code", "passkey"]


class AuthenticationFailed(FingerprintError):
    """Raised where a login is refused, for good or for now; the message may be shown to anyone."""


class TooManyAttempts(AuthenticationFailed):
    """Raised where too many attempts failed: try again after so many seconds, whatever the password."""

    def __init__(self, seconds: int) -> None:
        unit, count = ("minute", -(-seconds // 60)) if seconds > 90 else ("second", seconds)
        super().__init__(f"too many attempts failed; try again in {count} {unit}{'s' if count != 1 else ''}")
        self.seconds = seconds


class SecondFactorNeeded(AuthenticationFailed):
    """Raised where the password is right and a second factor is still needed; `login` is the secret of the login begun."""

    def __init__(self, login: str) -> None:
        super().__init__("a second factor is needed")
        self.login = login


@dataclass(frozen=True, slots=True)
class Account:
    """A person's account. `name` is what the audit records for ever: it is never given to another person.

    A person who comes from an OpenID provider is `issuer` and `subject`, and nothing else: never a name or an address.
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
        """Return whether alerts can be assigned to the account: it is active, and may decide them."""
        return self.is_active and role_includes(self.role, "analyst")


@dataclass(frozen=True, slots=True)
class ExternalIdentity:
    """The identity that an OpenID provider asserts; `role` as its claim is mapped, None where roles are given in the web app.

    `authenticated_at` is when the provider last asked for a proof (`auth_time`), None where it does not say.
    """

    issuer: str
    subject: str
    name: str
    role: Role | None = None
    authenticated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """The client of a login: an address, the browser's own description, and the secret of a device that logged in before."""

    address: str = ""
    agent: str = ""
    device: str = ""


@dataclass(frozen=True, slots=True)
class LoginSession:
    """A session as its owner sees it.

    `proven_at` is when its owner last showed a password, a second factor or a fresh login at the provider; None where that is
    unknown.
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
    """A login whose password was right and whose second factor is awaited; without `kinds` one must be set up now."""

    name: str
    kinds: tuple[FactorKind, ...]


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """The address of the web app, as WebAuthn binds a passkey to it: `https://alerts.example.com`, `alerts.example.com`."""

    origin: str
    rp_id: str


@dataclass(frozen=True, slots=True)
class SecondFactorResponse:
    """A second factor as it is shown: a code (of an app, or for recovery), or a passkey's answer as JSON to the challenge."""

    code: str = ""
    passkey: str = ""
    party: RelyingParty | None = None


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A program's substitute for a password: never more rights than its owner has, and never more than its scopes."""

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
    """A link that sets a first or a new password, once. Without a name it is the first admin's, who chooses one."""

    name: str
    expires_at: datetime


def role_includes(role: Role, needed: Role) -> bool:
    """Return whether a role includes another."""
    return ROLES.index(role) >= ROLES.index(needed)


def token_role(owner: Role, scopes: tuple[Scope, ...]) -> Role:
    """Return the role of a token: the highest of its scopes, capped by its owner's. Raises FingerprintError without a scope."""
    if not scopes:
        raise FingerprintError("a token needs a scope: read, triage, engineer or admin")
    widest = max((SCOPES[scope] for scope in scopes), key=ROLES.index)
    return min(owner, widest, key=ROLES.index)


def validate_name(name: str) -> str:
    """Return a name as it is kept, in small letters. Raises FingerprintError for what cannot be one."""
    kept = name.strip().lower()
    if not ACCOUNT_NAME_PATTERN.fullmatch(kept):
        raise FingerprintError(
            "a name has 1 to 64 of the letters a to z, digits and . _ @ + -, and begins with a letter or digit"
        )
    return kept


def derive_name(external_name: str) -> str:
    """Return a name for a person whom a provider calls something else: what a name cannot have becomes a dash."""
    return re.sub(r"[^a-z0-9._@+-]+", "-", external_name.lower()).strip("._@+-")[:50] or "person"
