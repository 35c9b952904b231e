"""Accounts: rows of `persons`, what becomes of them, and the rule that there is always an admin."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sql

from fingerprint.core.account import ACCOUNT_NAME_PATTERN, Account, Invitation, Role
from fingerprint.core.alert import FingerprintError, NotFound
from fingerprint.core.settings import Web
from fingerprint.store import secret_hashes as secrets_
from fingerprint.store.account_tables import invitations, logins, persons, sessions, tokens
from fingerprint.store.audit import add_audit_entry

INVITATION_LIFETIME = timedelta(hours=24)  # that an invitation is good for

Row = dict[str, Any]
_can_log_in = sql.or_(persons.c.password.is_not(None), persons.c.subject != "")
_active_admin = sql.and_(persons.c.role == "admin", persons.c.disabled_at.is_(None), _can_log_in)


def to_account(row: Row) -> Account:
    names = ("person_id", "name", "role", "created_at", "disabled_at", "last_login", "issuer", "subject")
    return Account(**{name: row[name] for name in names}, has_password=row["password"] is not None)


def find_account(connection: sql.Connection, name: str) -> Row | None:
    """A person's row, by the name as it is kept."""
    if not ACCOUNT_NAME_PATTERN.fullmatch(name):  # nor does any database like all of what may be typed
        return None
    row = connection.execute(sql.select(persons).where(persons.c.name == name)).mappings().first()
    return dict(row) if row else None


def require_account(connection: sql.Connection, name: str) -> Row:
    """A person's row; NotThere without one."""
    if row := find_account(connection, name):
        return row
    raise NotFound(f"there is no account {name[:64]!r}; `fingerprint accounts list` shows them")


def password_unchanged(connection: sql.Connection, row: Row) -> bool:
    """Whether the password that was proven is the person's yet: looking at one takes time, in which another may be set, or the
    account disabled."""
    now = require_account(connection, row["name"])
    return not now["disabled_at"] and now["password"] == row["password"]


def is_local_login_disabled(row: Row, web: Web) -> bool:
    """Whether a local account is good for nothing, because everybody comes through the provider."""
    return web.single_sign_on_only and not row["subject"] and row["name"] != web.emergency_account


def has_active_admin(connection: sql.Connection, except_person_id: str = "") -> bool:
    """Whether somebody who can log in is an admin, beside one person (an id)."""
    query = sql.select(persons.c.name).where(_active_admin, persons.c.person_id != except_person_id).limit(1)
    return connection.scalar(query) is not None


def add_account(connection: sql.Connection, now: datetime, name: str, role: Role, **more: Any) -> Row:
    """A new account. FingerprintError where the name is taken, or was."""
    if find_account(connection, name):
        raise FingerprintError(f"there is an account {name} already: choose another name")
    row = {"person_id": uuid4().hex, "name": name, "role": role, "created_at": now} | more
    connection.execute(sql.insert(persons).values(**row))
    return require_account(connection, name)


def update_account(connection: sql.Connection, row: Row, **new: Any) -> None:
    connection.execute(sql.update(persons).where(persons.c.person_id == row["person_id"]).values(**new))


def update_role(connection: sql.Connection, now: datetime, name: str, role: Role, by: str) -> None:
    row = require_account(connection, name)
    if row["role"] == role:
        return
    _require_remaining_admin(connection, row)
    update_account(connection, row, role=role)
    delete_account_sessions(connection, row["person_id"])
    add_audit_entry(connection, now, by, "person.role", name, {"from": row["role"], "to": role})


def mark_disabled(connection: sql.Connection, now: datetime, name: str, by: str) -> None:
    """From this transaction on there is neither session nor token nor link."""
    row = require_account(connection, name)
    if row["disabled_at"]:
        return
    _require_remaining_admin(connection, row)
    update_account(connection, row, disabled_at=now)
    delete_account_sessions(connection, row["person_id"])
    revoke_account_tokens(connection, now, row["person_id"])
    delete_invitation(connection, name)
    add_audit_entry(connection, now, by, "person.disable", name)


def mark_enabled(connection: sql.Connection, now: datetime, name: str, by: str) -> None:
    """Tokens stay revoked."""
    row = require_account(connection, name)
    if row["disabled_at"]:
        update_account(connection, row, disabled_at=None)
        add_audit_entry(connection, now, by, "person.enable", name)


def delete_account_sessions(connection: sql.Connection, person_id: str, except_digest: str = "") -> int:
    """Of a person, but the one of this digest, and logins under way; how many sessions there were."""
    connection.execute(sql.delete(logins).where(logins.c.person_id == person_id))
    those = (sessions.c.person_id == person_id) & (sessions.c.digest != except_digest)
    return connection.execute(sql.delete(sessions).where(those)).rowcount


def revoke_account_tokens(connection: sql.Connection, now: datetime, person_id: str) -> int:
    """Revoke all tokens of a person; how many there were."""
    live = (tokens.c.person_id == person_id) & tokens.c.revoked_at.is_(None) & (tokens.c.expires_at > now)
    return connection.execute(sql.update(tokens).where(live).values(revoked_at=now)).rowcount


def end_sessions_and_tokens(connection: sql.Connection, now: datetime, name: str, by: str) -> None:
    """End sessions and tokens of a person, who may log in again."""
    row = require_account(connection, name)
    ended = {"sessions": delete_account_sessions(connection, row["person_id"])}
    ended["tokens"] = revoke_account_tokens(connection, now, row["person_id"])
    add_audit_entry(connection, now, by, "person.end_all", name, ended)


def invite_by_name(connection: sql.Connection, now: datetime, name: str, role: Role | None, by: str) -> str:
    """For a new account with a role, or for a new password of one that is there."""
    if role is None:
        _require_password_allowed(require_account(connection, name))
    else:
        add_account(connection, now, name, role)
    add_audit_entry(
        connection, now, by, "person.invite", name, {"role": role} if role else {"password": "new"}
    )
    return insert_invitation(connection, now, name)


def insert_invitation(connection: sql.Connection, now: datetime, name: str) -> str:
    """A link's secret; the one before is no longer good."""
    secret = secrets_.generate_secret()
    delete_invitation(connection, name)
    row = {"digest": secrets_.secret_digest(secret), "name": name, "expires_at": now + INVITATION_LIFETIME}
    connection.execute(sql.insert(invitations).values(**row))
    return secret


def find_invitation(connection: sql.Connection, now: datetime, secret: str) -> Invitation | None:
    """What a link is good for; the first admin's for nothing once there is an admin."""
    query = sql.select(invitations).where(invitations.c.digest == secrets_.secret_digest(secret))
    row = connection.execute(query).mappings().first()
    if row is None or row["expires_at"] <= now or (not row["name"] and has_active_admin(connection)):
        return None
    return Invitation(row["name"], row["expires_at"])


def delete_invitation(connection: sql.Connection, name: str) -> None:
    """What was sent to this name is no longer good."""
    connection.execute(sql.delete(invitations).where(invitations.c.name == name))


def _require_remaining_admin(connection: sql.Connection, row: Row) -> None:
    person = to_account(row)
    active = person.role == "admin" and person.disabled_at is None and not person.is_invited
    if active and not has_active_admin(connection, except_person_id=person.person_id):
        raise FingerprintError(f"{person.name} is the last admin: make somebody else one first")


def _require_password_allowed(row: Row) -> None:
    if row["subject"]:
        raise FingerprintError(f"{row['name']} logs in at {row['issuer']} and has no password here")
    if row["disabled_at"]:
        raise FingerprintError(f"{row['name']} is disabled: enable the account first")
