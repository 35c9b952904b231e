"""Who may work at the desk, as protocols: the accounts it keeps, and a provider that vouches for others.

Example:
    >>> secret = people.enter("maria", "four plain english words", address="192.0.2.7")
    >>> people.who(secret).role
    'analyst'
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from fingerprint.people import Identity, Invitation, Person, Role, Scope, Token


class People(Protocol):
    """Accounts, sessions, tokens and invitations. Every change has its line in the audit, in the same transaction.

    Secrets are given once and kept as digests. Whoever is disabled has neither session nor token from that moment on. There is
    always an admin: the last one can be neither disabled nor given another role.
    """

    def enter(self, name: str, password: str, address: str) -> str:
        """A new session's secret. Refused, with the same sentence whatever was wrong, after the same time; TooMany after too
        many failures under this name or from this address, wherever they were counted."""
        ...

    def enter_as(self, identity: Identity, default: Role | None = None) -> str:
        """A session for whom a provider vouches; an account of the role `default` is made where there is none. Refused
        without a role, and for whoever is disabled."""
        ...

    def leave(self, secret: str) -> None:
        """End a session; an unknown one is no error."""
        ...

    def leave_others(self, name: str, secret: str) -> int:
        """End all sessions of a person but this one; how many there were."""
        ...

    def who(self, secret: str, awake: bool = True) -> Person | None:
        """Whose session it is, if it is alive: neither idle for too long, nor too old, nor ended. Not `awake`: the page asks
        by itself, and the session is as idle as before."""
        ...

    def bearer(self, secret: str) -> tuple[Person, Token] | None:
        """Whose token it is, if it is alive."""
        ...

    def begin(self) -> str | None:
        """The secret of the first admin's invitation; None where there is an admin. The one before is no longer good."""
        ...

    def invitation(self, secret: str) -> Invitation | None:
        """What a link is good for; None for one that is unknown, used, too old, or no longer needed."""
        ...

    def accept(self, secret: str, name: str, password: str) -> str:
        """Use an invitation: sets the password and gives a session's secret. `name` counts only where the invitation has
        none. Refused for a link that is no longer good; FingerprintError for a weak password, which does not use it up."""
        ...

    def persons(self) -> list[Person]:
        """By name."""
        ...

    def person(self, name: str) -> Person:
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

    def change_password(self, name: str, old: str, new: str, address: str) -> str:
        """Ends all sessions of the person and gives a new one's secret. Refused and TooMany as in `enter`."""
        ...

    def make_token(
        self, owner: str, label: str, scopes: Sequence[Scope], expires_at: datetime, by: str
    ) -> tuple[Token, str]:
        """A token and its secret, which is never shown again."""
        ...

    def tokens(self, owner: str | None = None) -> list[Token]:
        """Of one person, or all; revoked and expired ones too, the newest first."""
        ...

    def revoke(self, token_id: str, by: str, owner: str | None = None) -> None:
        """NotThere where there is none, or, with `owner`, none of that person."""
        ...

    def forget(self) -> None:
        """Drop sessions, attempts and invitations that are over."""
        ...


class Provider(Protocol):
    """An OpenID provider: authorization code flow with PKCE. One secret of the browser's carries one login through."""

    def start(self, secret: str, back: str) -> str:
        """Where the browser is sent. `back` is our own address that the provider sends it back to. FingerprintError where
        the provider does not answer, or is not who it should be."""
        ...

    def finish(self, secret: str, state: str, code: str, back: str) -> Identity:
        """Who came back. Refused for a login that this browser did not begin, or that proves nothing."""
        ...
