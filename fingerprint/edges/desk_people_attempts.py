"""Logins that failed, counted on the desk, so that several servers count together.

Example:
    >>> with engine.begin() as connection:
    ...     reserve(connection, now, "maria", "192.0.2.7", web)      # counted before the password is looked at
    ...     clear(connection, "maria", "192.0.2.7")                  # it was right

An attempt counts before its password is looked at: many at the same time are not more than one after the other. Names and
addresses are digests here: who mistypes may have typed a password for a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from uuid import uuid4

import sqlalchemy as sql

from fingerprint.edges.desk_people_tables import attempts
from fingerprint.people import TooMany
from fingerprint.settings import Web

ADDRESSES = 3  # times as many failures of an address as of a name: several people may sit behind one


def reserve(connection: sql.Connection, now: datetime, name: str, address: str, web: Web) -> None:
    """Count an attempt. TooMany, and nothing is counted, after too many of this name or address."""
    span = timedelta(minutes=web.attempts_minutes)
    for of, most in ((_of_name(name), web.attempts), (_of_address(address), ADDRESSES * web.attempts)):
        oldest, count = _recent(connection, of, now - span, most)
        if count >= most:
            raise TooMany(ceil((oldest + span - now).total_seconds()))
    rows = [{"attempt_id": uuid4().hex, "of": of, "at": now} for of in _both(name, address)]
    connection.execute(sql.insert(attempts), rows)


def clear(connection: sql.Connection, name: str, address: str) -> None:
    """It was the right password: nothing is held against the name, and one attempt less against the address."""
    connection.execute(sql.delete(attempts).where(attempts.c.of == _of_name(name)))
    newest = sql.select(attempts.c.attempt_id).where(attempts.c.of == _of_address(address))
    newest = newest.order_by(attempts.c.at.desc()).limit(1)
    connection.execute(sql.delete(attempts).where(attempts.c.attempt_id.in_(newest)))


def forget(connection: sql.Connection, now: datetime, web: Web) -> None:
    """Drop what counts no longer."""
    before = now - timedelta(minutes=web.attempts_minutes)
    connection.execute(sql.delete(attempts).where(attempts.c.at < before))


def _recent(connection: sql.Connection, of: str, since: datetime, most: int) -> tuple[datetime, int]:
    """When the oldest of the last `most` attempts was, and how many there are of these."""
    query = sql.select(attempts.c.at).where(attempts.c.of == of, attempts.c.at > since)
    times = connection.scalars(query.order_by(attempts.c.at.desc()).limit(most)).all()
    return (times[-1] if times else since), len(times)


def _both(name: str, address: str) -> Iterator[str]:
    yield _of_name(name)
    yield _of_address(address)


def _of_name(name: str) -> str:
    return _digest("name", name.strip().lower())


def _of_address(address: str) -> str:
    """Of IPv6 the network of 64 bits: whoever has one address there has all."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return _digest("address", address)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return _digest("address", str(ip_network((parsed, 64), strict=False)))
    return _digest("address", str(getattr(parsed, "ipv4_mapped", None) or parsed))


def _digest(kind: str, text: str) -> str:
    return blake2b(f"{kind} {text}".encode(errors="surrogatepass"), digest_size=16).hexdigest()
