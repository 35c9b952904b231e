"""Browsers in which a person logged in before: what fails elsewhere does not slow them down. Kept as digests.

Example:
    >>> secret = remember(connection, now, row, before="")
    >>> known(connection, now, row, secret)
    True
"""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sql

from fingerprint.store import secret_hashes as secrets_
from fingerprint.store.account_rows import Row
from fingerprint.store.account_tables import known_browsers

BROWSER_RETENTION = timedelta(days=90)  # that a browser is known after its last login
MAX_BROWSERS = 20  # of one person


def is_known_browser(connection: sql.Connection, now: datetime, row: Row | None, secret: str) -> bool:
    """Return whether the person logged in there."""
    if row is None or not secret:
        return False
    mine = (known_browsers.c.digest == secrets_.secret_digest(secret)) & (
        known_browsers.c.person_id == row["person_id"]
    )
    query = sql.select(known_browsers.c.digest).where(
        mine, known_browsers.c.seen_at > now - BROWSER_RETENTION
    )
    return connection.scalar(query) is not None


def remember_browser(connection: sql.Connection, now: datetime, person_id: str, previous_secret: str) -> str:
    """Return a new secret for a browser, in place of the one it had."""
    mine = known_browsers.c.person_id == person_id
    connection.execute(
        sql.delete(known_browsers).where(
            mine, known_browsers.c.digest == secrets_.secret_digest(previous_secret)
        )
    )
    newest = (
        sql.select(known_browsers.c.digest)
        .where(mine)
        .order_by(known_browsers.c.seen_at.desc())
        .limit(MAX_BROWSERS - 1)
    )
    kept = connection.scalars(newest).all()
    connection.execute(sql.delete(known_browsers).where(mine, known_browsers.c.digest.not_in(kept)))
    secret = secrets_.generate_secret()
    new = {"digest": secrets_.secret_digest(secret), "person_id": person_id, "seen_at": now}
    connection.execute(sql.insert(known_browsers).values(**new))
    return secret


def forget_browsers(connection: sql.Connection, person_id: str) -> None:
    """Know no browser of a person any more."""
    connection.execute(sql.delete(known_browsers).where(known_browsers.c.person_id == person_id))


def delete_expired_browsers(connection: sql.Connection, now: datetime) -> None:
    """Drop browsers that have not been seen for long."""
    connection.execute(sql.delete(known_browsers).where(known_browsers.c.seen_at <= now - BROWSER_RETENTION))
