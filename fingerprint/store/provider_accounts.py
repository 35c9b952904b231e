"""Accounts of identities from a provider (OpenID Connect).

Example:
    >>> row = find_or_create(connection, now, ExternalIdentity("https://id.example.com", "248289", "Maria Sanz"), "viewer")
    >>> row["name"]
    'maria-sanz'
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sql

from fingerprint.core.account import AuthenticationFailed, ExternalIdentity, Role, derive_name
from fingerprint.store import account_rows
from fingerprint.store.audit import add_audit_entry
from fingerprint.store.schema import Row, accounts


def find_or_create(
    connection: sql.Connection, now: datetime, identity: ExternalIdentity, default: Role | None
) -> Row:
    """Return the row of an identity's account; if there is none, create it with the provider's role, or the role `default`.

    Raise AuthenticationFailed for a new identity without a role.
    """
    same = (accounts.c.issuer == identity.issuer) & (accounts.c.subject == identity.subject)
    found = connection.execute(sql.select(accounts).where(same, accounts.c.subject != "")).mappings().first()
    return dict(found) if found else _create(connection, now, identity, default)


def apply_role(connection: sql.Connection, now: datetime, row: Row, identity: ExternalIdentity) -> None:
    """Give an account the role that the provider names, if any; if the role changes, end the account's sessions."""
    if not identity.role or identity.role == row["role"]:
        return
    account_rows.update_account(connection, row, role=identity.role)
    account_rows.delete_account_sessions(connection, row["account_id"])
    detail = {"from": row["role"], "to": identity.role}
    add_audit_entry(connection, now, identity.issuer, "account.role", row["name"], detail)


def _create(
    connection: sql.Connection, now: datetime, identity: ExternalIdentity, default: Role | None
) -> Row:
    role = identity.role or default
    if role is None:
        raise AuthenticationFailed("this account has no role here: ask an admin")
    first_choice = derive_name(identity.name)
    names = (first_choice if number == 1 else f"{first_choice}-{number}" for number in range(1, 10_000))
    name = next(each for each in names if not account_rows.find_account(connection, each))
    row = account_rows.add_account(
        connection, now, name, role, issuer=identity.issuer, subject=identity.subject
    )
    add_audit_entry(connection, now, identity.issuer, "account.create", name, {"role": role})
    return row
