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
from fingerprint.store.account_tables import devices

KEPT = timedelta(days=90)  # that a browser is known after its last login
MOST = 20  # of one person


def known(connection: sql.Connection, now: datetime, row: Row | None, secret: str) -> bool:
    """Return whether the person logged in there."""
    if row is None or not secret:
        return False
    mine = (devices.c.digest == secrets_.digest(secret)) & (devices.c.person_id == row["person_id"])
    query = sql.select(devices.c.digest).where(mine, devices.c.seen_at > now - KEPT)
    return connection.scalar(query) is not None


def remember(connection: sql.Connection, now: datetime, person_id: str, before: str) -> str:
    """Return a new secret for a browser, in place of the one it had."""
    mine = devices.c.person_id == person_id
    connection.execute(sql.delete(devices).where(mine, devices.c.digest == secrets_.digest(before)))
    newest = sql.select(devices.c.digest).where(mine).order_by(devices.c.seen_at.desc()).limit(MOST - 1)
    kept = connection.scalars(newest).all()
    connection.execute(sql.delete(devices).where(mine, devices.c.digest.not_in(kept)))
    secret = secrets_.new_secret()
    new = {"digest": secrets_.digest(secret), "person_id": person_id, "seen_at": now}
    connection.execute(sql.insert(devices).values(**new))
    return secret


def forget(connection: sql.Connection, person_id: str) -> None:
    """Know no browser of a person any more."""
    connection.execute(sql.delete(devices).where(devices.c.person_id == person_id))


def forget_old(connection: sql.Connection, now: datetime) -> None:
    """Drop browsers that have not been seen for long."""
    connection.execute(sql.delete(devices).where(devices.c.seen_at <= now - KEPT))
