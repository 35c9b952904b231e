"""Who works at the desk, and what each may do: persons, roles, sessions, tokens, invitations, and the rules for passwords.

Example:
    >>> may("analyst", "viewer"), may("analyst", "engineer")
    (True, False)
    >>> weak_password("maria", "maria"), weak_password("four plain english words", "maria")
    ('a password has at least 12 characters', None)

Roles rise: a *viewer* reads; an *analyst* decides, assigns, notes and saves views; an *engineer* suppresses, sets thresholds and
reads the audit; an *admin* sees to people, everybody's tokens and retention. A *secret* is 256 random bits that one side shows
and the other keeps only as a digest: of a session, a token, an invitation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from fingerprint.domain import FingerprintError

Role = Literal["viewer", "analyst", "engineer", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)  # rising
Scope = Literal["read", "triage", "engineer", "admin"]
SCOPES: dict[Scope, Role] = dict(
    zip(get_args(Scope), ROLES, strict=True)
)  # what a token of this scope may at most

NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
SHORTEST_PASSWORD, LONGEST_PASSWORD = (
    12,
    1024,
)  # characters (NIST SP 800-63B: length, and no rules of composition)
LONGEST_TOKEN_DAYS = 366


class Refused(FingerprintError):
    """Whoever asks is not let in, or not now; the sentence may be shown to anybody."""


class TooMany(Refused):
    """Too many attempts failed: come back after so many seconds, whatever the password."""

    def __init__(self, seconds: int) -> None:
        minutes = -(-seconds // 60)
        super().__init__(
            f"too many attempts failed; try again in {minutes} minute{'s' if minutes != 1 else ''}"
        )
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with an account. `name` is what the audit says for ever: it is never given to somebody else.

    Whoever comes from an OpenID provider is `issuer` and `subject`, and nothing else: never a name or an address.
    """

    person_id: str
    name: str
    role: Role
    created_at: datetime
    disabled_at: datetime | None = None
    last_login: datetime | None = None
    issuer: str = ""
    subject: str = ""
    has_password: bool = False

    @property
    def invited(self) -> bool:
        """Whether the account waits for its first password."""
        return not self.has_password and not self.subject


@dataclass(frozen=True, slots=True)
class Identity:
    """Who an OpenID provider says it is; `role` as its claim is mapped, None where roles are given out here."""

    issuer: str
    subject: str
    name: str
    role: Role | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """What a program shows instead of a password: never more than its owner may, and never more than its scopes."""

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


def may(role: Role, needed: Role) -> bool:
    """Whether a role includes another."""
    return ROLES.index(role) >= ROLES.index(needed)


def role_of(owner: Role, scopes: tuple[Scope, ...]) -> Role:
    """The role of a token: the highest of its scopes, capped by its owner's. FingerprintError without a scope."""
    if not scopes:
        raise FingerprintError("a token needs a scope: read, triage, engineer or admin")
    widest = max((SCOPES[scope] for scope in scopes), key=ROLES.index)
    return min(owner, widest, key=ROLES.index)


def checked_name(name: str) -> str:
    """A name as it is kept, in small letters. FingerprintError for what cannot be one."""
    kept = name.strip().lower()
    if not NAME.fullmatch(kept):
        raise FingerprintError(
            "a name has 1 to 64 of the letters a to z, digits and . _ @ + -, and begins with a letter or digit"
        )
    return kept


def fitting_name(said: str) -> str:
    """A name for whom a provider calls something else: what a name cannot have becomes a dash."""
    return re.sub(r"[^a-z0-9._@+-]+", "-", said.lower()).strip("._@+-")[:50] or "person"


def weak_password(password: str, name: str) -> str | None:
    """Why a password is refused; None for a good one."""
    if len(password) < SHORTEST_PASSWORD:
        return f"a password has at least {SHORTEST_PASSWORD} characters"
    if len(password) > LONGEST_PASSWORD:
        return f"a password has at most {LONGEST_PASSWORD:,} characters"
    if name and password.strip().casefold() == name.casefold():
        return "a password is not the name"
    if len(set(password)) < 4:
        return "a password has more than three different characters"
    return None
