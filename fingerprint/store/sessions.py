"""Sessions of accounts: rows that begin with a login (`logins.py`) and end when they are idle, too old, or ended.

Example:
    >>> secret = store.logins.log_in("maria", "four plain english words", client)
    >>> store.sessions.authenticate(secret).name
    'maria'
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import sqlalchemy as sql

from fingerprint.core.account import Account, ClientInfo, LoginSession, ProofKind
from fingerprint.core.errors import NotFound
from fingerprint.core.sanitize import storable
from fingerprint.core.settings import Web
from fingerprint.store import account_rows, login_throttle, secret_hashes
from fingerprint.store.account_rows import AccountTable
from fingerprint.store.audit import add_audit_entry
from fingerprint.store.database import Locking, reads, writes
from fingerprint.store.schema import Row, accounts, pending_logins, sessions

LOGIN_EXPIRED = "the login took too long: begin again"
SEEN_INTERVAL_DIVISOR = 20  # the use of a session is recorded at most 20 times within its idle time
MAX_USER_AGENT_LENGTH = 300  # characters

_owner_name = sql.select(accounts.c.name).join(sessions, sessions.c.account_id == accounts.c.account_id)


class SqlSessionRepository(AccountTable):
    """Live sessions of accounts; each change and its line in the audit are one transaction."""

    @reads
    def get(self, connection: sql.Connection, secret: str) -> LoginSession | None:
        """Return a live session by its secret, None without one."""
        row = find_session(connection, self._now(), secret, self._web)
        return _to_session(row) if row else None

    @reads
    def of_account(self, connection: sql.Connection, name: str) -> list[LoginSession]:
        """Return the live sessions of an account, the one used last first."""
        row, now = account_rows.require_account(connection, name), self._now()
        idle = now - timedelta(hours=self._web.session_idle_hours)
        live = (sessions.c.account_id == row["account_id"]) & (sessions.c.expires_at > now)
        query = sql.select(sessions, sessions.c.created_at.label("begun_at"))
        query = query.where(live, sessions.c.seen_at > idle).order_by(sessions.c.seen_at.desc())
        return [_to_session(dict(each) | {"name": name}) for each in connection.execute(query).mappings()]

    def authenticate(self, secret: str, is_activity: bool = True) -> Account | None:
        """Return the account of a live session, and record that it was used.

        A request that the page makes by itself is not `is_activity`: the session's idle time goes on.
        """
        now = self._now()
        row = self._session.read(lambda connection: find_session(connection, now, secret, self._web))
        if row is None:
            return None
        idle = timedelta(hours=self._web.session_idle_hours)
        if is_activity and now - row["seen_at"] > idle / SEEN_INTERVAL_DIVISOR:
            self._try_write(lambda connection: _mark_seen(connection, now, secret))
        return account_rows.to_account(row)

    @writes(Locking.ACCOUNTS)
    def log_out(self, connection: sql.Connection, secret: str) -> None:
        """End a session by its secret; an unknown one is no error."""
        this_session = sessions.c.digest == secret_hashes.secret_digest(secret)
        name = connection.scalar(_owner_name.where(this_session))
        if name:
            connection.execute(sql.delete(sessions).where(this_session))
            add_audit_entry(connection, self._now(), name, "account.logout", name)

    @writes(Locking.ACCOUNTS)
    def end(self, connection: sql.Connection, session_id: str, by: str, owner: str | None = None) -> None:
        """End a session by its id. Raise NotFound if there is none, or with `owner` if it is not that account's."""
        whose = connection.scalar(_owner_name.where(sessions.c.session_id == storable(session_id)))
        if whose is None or (owner is not None and whose != owner):
            raise NotFound("there is no such session")
        connection.execute(sql.delete(sessions).where(sessions.c.session_id == session_id))
        add_audit_entry(connection, self._now(), by, "account.end_session", whose, {"session": session_id})

    @writes(Locking.ACCOUNTS)
    def end_others(self, connection: sql.Connection, name: str, secret: str) -> int:
        """End all sessions of an account except the one of this secret; return their number."""
        row = account_rows.require_account(connection, name)
        ended = account_rows.delete_account_sessions(
            connection, row["account_id"], secret_hashes.secret_digest(secret)
        )
        add_audit_entry(connection, self._now(), name, "account.leave_others", name, {"sessions": ended})
        return ended

    @writes(Locking.ACCOUNTS)
    def end_all(self, connection: sql.Connection, name: str, by: str) -> None:
        """End sessions and tokens of an account, which may log in again, and forget its browsers."""
        row, now = account_rows.require_account(connection, name), self._now()
        ended = {"sessions": account_rows.delete_account_sessions(connection, row["account_id"])}
        ended["tokens"] = account_rows.revoke_account_tokens(connection, now, row["account_id"])
        add_audit_entry(connection, now, by, "account.end_all", name, ended)
        login_throttle.forget_browsers(connection, row["account_id"])

    @writes(Locking.ACCOUNTS)
    def delete_expired(self, connection: sql.Connection) -> None:
        """Delete sessions that were idle for too long or are too old."""
        now = self._now()
        idle = now - timedelta(hours=self._web.session_idle_hours)
        over = (sessions.c.expires_at <= now) | (sessions.c.seen_at <= idle)
        connection.execute(sql.delete(sessions).where(over))


def begin_session(
    connection: sql.Connection,
    now: datetime,
    row: Row,
    where: ClientInfo,
    proof: ProofKind,
    web: Web,
    proven_at: datetime | None = None,
) -> str:
    """Begin a session, record it in the audit log, and return its secret.

    The proof is of this moment, except a provider's, unless `proven_at` names another time.
    """
    secret = secret_hashes.generate_secret()
    new = {
        "digest": secret_hashes.secret_digest(secret),
        "session_id": uuid4().hex,
        "account_id": row["account_id"],
        "created_at": now,
        "seen_at": now,
        "expires_at": now + timedelta(hours=web.session_max_hours),
        "address": storable(where.address)[:MAX_USER_AGENT_LENGTH],
        "agent": storable(where.agent)[:MAX_USER_AGENT_LENGTH],
        "proof": proof,
        "proven_at": proven_at if proof == "provider" else proven_at or now,
    }
    connection.execute(sql.insert(sessions).values(**new))
    account_rows.update_account(connection, row, last_login=now)
    detail = {"issuer": row["issuer"]} if proof == "provider" else {"proof": proof}
    add_audit_entry(
        connection, now, row["name"], "account.login", row["name"], {"address": new["address"]} | detail
    )
    return secret


def find_session(connection: sql.Connection, now: datetime, secret: str, web: Web) -> Row | None:
    """Return the row of a live session joined with its account's."""
    kept = [column for column in sessions.columns if column.name not in accounts.columns]
    query = sql.select(accounts, *kept).join(sessions, sessions.c.account_id == accounts.c.account_id)
    query = query.add_columns(sessions.c.created_at.label("begun_at"))
    idle = timedelta(hours=web.session_idle_hours)
    lasts = (
        (sessions.c.expires_at > now) & (sessions.c.seen_at > now - idle) & accounts.c.disabled_at.is_(None)
    )
    row = (
        connection.execute(query.where(sessions.c.digest == secret_hashes.secret_digest(secret), lasts))
        .mappings()
        .first()
    )
    if row is None or account_rows.is_local_login_disabled(dict(row), web):
        return None
    too_weak = web.second_factor == "required" and row["proof"] == "password"
    return None if too_weak else dict(row)


def mark_reauthenticated(connection: sql.Connection, now: datetime, digest: str) -> None:
    """Record that the owner of a session has just proved their identity again."""
    this_session = sessions.c.digest == digest
    connection.execute(sql.update(sessions).where(this_session).values(proven_at=now, challenge=""))


def save_challenge(connection: sql.Connection, secret: str, challenge: str) -> None:
    """Save the challenge for a passkey in the session or pending login; an empty one after its use."""
    for table in (sessions, pending_logins):
        this_row = table.c.digest == secret_hashes.secret_digest(secret)
        connection.execute(sql.update(table).where(this_row).values(challenge=challenge))


def require_session(connection: sql.Connection, now: datetime, secret: str, web: Web) -> Row:
    """Return the row of a live session as `find_session` does. Raise AuthenticationFailed without one."""
    return find_session(connection, now, secret, web) or account_rows.raise_refused(LOGIN_EXPIRED)


def _mark_seen(connection: sql.Connection, now: datetime, secret: str) -> None:
    this_session = sessions.c.digest == secret_hashes.secret_digest(secret)
    connection.execute(sql.update(sessions).where(this_session).values(seen_at=now))


def _to_session(row: Row) -> LoginSession:
    names = ("session_id", "seen_at", "expires_at", "address", "agent", "proof", "proven_at")
    kept = {name: row[name] for name in names}
    return LoginSession(owner=row["name"], created_at=row["begun_at"], **kept)
