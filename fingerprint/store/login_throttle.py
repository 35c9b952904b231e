"""Slow down guessing of passwords and codes without lock-outs. Failures are counted in the database, for all servers.

Example:
    >>> counted = login_counters("password", "maria", where, known_browser=False)
    >>> reserve_attempts(connection, now, counted)   # before the password is verified; TooManyAttempts during a delay
    >>> clear_failures(connection, counted)          # if it was right

Each counter has a backoff: some failures are free, then each next try must wait, longer and longer. A counter lives for a day.

- A name from one network (IPv4 address, IPv6 /64): 4 free, then 2, 4, 8 ... seconds, 15 minutes at most: 107 tries a day.
- A name from all networks together: 50 free, then one try in 2 minutes: 769 tries a day. Codes of a second factor, which are
  short: 10 free, then one in 15 minutes: 105 tries a day.
- A browser in which the account logged in before has a counter of its own instead of these: failures elsewhere do not delay it.
- A session that authenticates again has a counter of its own as well.

A try that is refused during a delay is not counted. A try counts before it is verified, so concurrent tries gain nothing over
consecutive ones. Names and addresses are stored as digests, because a name may be a password typed into the wrong field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from typing import Literal

import sqlalchemy as sql

from fingerprint.core.account import ClientInfo, TooManyAttempts
from fingerprint.store.schema import Row, known_browsers, login_attempts
from fingerprint.store.secret_hashes import generate_secret, secret_digest

BROWSER_RETENTION = timedelta(days=90)  # a browser is known for so long after its last login
MAX_BROWSERS = 20  # of one person
DAY = timedelta(days=1)  # lifetime of a counter, from its first failure on
CredentialKind = Literal["password", "code"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Free failures, and the delay after them: `first_seconds`, then twice as long each time up to `max_seconds`."""

    free_failures: int
    first_seconds: int
    max_seconds: int

    def delay(self, failures: int) -> timedelta:
        """Return the delay after the last of `failures` failures."""
        beyond = failures - self.free_failures
        return timedelta(
            seconds=min(self.max_seconds, self.first_seconds << min(beyond, 20)) if beyond >= 0 else 0
        )


PER_NETWORK_BACKOFF = Backoff(free_failures=4, first_seconds=2, max_seconds=900)
GLOBAL_BACKOFF: dict[CredentialKind, Backoff] = {
    "password": Backoff(50, 120, 120),
    "code": Backoff(10, 900, 900),
}


@dataclass(frozen=True, slots=True)
class FailureCounter:
    """A counter of failures: its digest in the database, and its backoff."""

    digest: str
    backoff: Backoff


def login_counters(
    kind: CredentialKind, name: str, where: ClientInfo, known_browser: bool
) -> list[FailureCounter]:
    """Return the counters of a try, the narrowest first. In a `known_browser` the account has logged in before."""
    who = name.strip().lower()
    if known_browser:
        return [FailureCounter(_counter_digest(kind, who, "device", where.device), PER_NETWORK_BACKOFF)]
    nearby = FailureCounter(
        _counter_digest(kind, who, "network", _client_network(where.address)), PER_NETWORK_BACKOFF
    )
    return [nearby, FailureCounter(_counter_digest(kind, who), GLOBAL_BACKOFF[kind])]


def session_counters(digest: str) -> list[FailureCounter]:
    """Return the counters of a session that authenticates again."""
    return [FailureCounter(_counter_digest("session", digest), PER_NETWORK_BACKOFF)]


def reserve_attempts(connection: sql.Connection, now: datetime, counted: Sequence[FailureCounter]) -> None:
    """Count a try for each counter. During the delay of any of them, raise TooManyAttempts and count nothing."""
    there = _active_rows(connection, now, counted)
    waits = [
        each.backoff.delay(row.failures) - (now - row.at)
        for each in counted
        if (row := there.get(each.digest))
    ]
    if (wait := max(waits, default=timedelta())) > timedelta():
        raise TooManyAttempts(ceil(wait.total_seconds()))
    for each in counted:
        row = there.get(each.digest)
        failures, begun = (row.failures, row.begun_at) if row else (0, now)
        connection.execute(sql.delete(login_attempts).where(login_attempts.c.counter == each.digest))
        new = {"counter": each.digest, "failures": failures + 1, "begun_at": begun, "at": now}
        connection.execute(sql.insert(login_attempts).values(**new))


def clear_failures(connection: sql.Connection, counted: Sequence[FailureCounter]) -> None:
    """Clear the narrowest counter after a success, and subtract its failures from the wider ones."""
    here, *wider = counted
    failed = (
        connection.scalar(
            sql.select(login_attempts.c.failures).where(login_attempts.c.counter == here.digest)
        )
        or 0
    )
    connection.execute(sql.delete(login_attempts).where(login_attempts.c.counter == here.digest))
    for each in wider:
        this_counter = login_attempts.c.counter == each.digest
        connection.execute(
            sql.delete(login_attempts).where(this_counter, login_attempts.c.failures <= failed)
        )
        connection.execute(
            sql.update(login_attempts).where(this_counter).values(failures=login_attempts.c.failures - failed)
        )


def delete_expired_attempts(connection: sql.Connection, now: datetime) -> None:
    """Delete expired counters."""
    connection.execute(sql.delete(login_attempts).where(login_attempts.c.begun_at <= now - DAY))


def _active_rows(
    connection: sql.Connection, now: datetime, counted: Sequence[FailureCounter]
) -> dict[str, sql.Row[tuple[str, int, datetime, datetime]]]:
    """Return the rows of live counters, by digest."""
    those = login_attempts.c.counter.in_([each.digest for each in counted]) & (
        login_attempts.c.begun_at > now - DAY
    )
    return {row.counter: row for row in connection.execute(sql.select(login_attempts).where(those))}


def _client_network(address: str) -> str:
    """Return the address, or for IPv6 its /64 network, because one client may use all addresses of the network."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, 64), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def _counter_digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


# --- known browsers ---------------------------------------------------------------------------------------------------


def is_known_browser(connection: sql.Connection, now: datetime, row: Row | None, secret: str) -> bool:
    """Return whether the account logged in with this browser before."""
    if row is None or not secret:
        return False
    this_browser = (known_browsers.c.digest == secret_digest(secret)) & (
        known_browsers.c.account_id == row["account_id"]
    )
    query = sql.select(known_browsers.c.digest).where(
        this_browser, known_browsers.c.seen_at > now - BROWSER_RETENTION
    )
    return connection.scalar(query) is not None


def remember_browser(connection: sql.Connection, now: datetime, account_id: str, previous_secret: str) -> str:
    """Return a new secret for a browser, which replaces its previous one."""
    of_account = known_browsers.c.account_id == account_id
    connection.execute(
        sql.delete(known_browsers).where(
            of_account, known_browsers.c.digest == secret_digest(previous_secret)
        )
    )
    newest = (
        sql.select(known_browsers.c.digest)
        .where(of_account)
        .order_by(known_browsers.c.seen_at.desc())
        .limit(MAX_BROWSERS - 1)
    )
    kept = connection.scalars(newest).all()
    connection.execute(sql.delete(known_browsers).where(of_account, known_browsers.c.digest.not_in(kept)))
    secret = generate_secret()
    new = {"digest": secret_digest(secret), "account_id": account_id, "seen_at": now}
    connection.execute(sql.insert(known_browsers).values(**new))
    return secret


def forget_browsers(connection: sql.Connection, account_id: str) -> None:
    """Forget all known browsers of an account."""
    connection.execute(sql.delete(known_browsers).where(known_browsers.c.account_id == account_id))


def delete_expired_browsers(connection: sql.Connection, now: datetime) -> None:
    """Delete browsers that have not been used for BROWSER_RETENTION."""
    connection.execute(sql.delete(known_browsers).where(known_browsers.c.seen_at <= now - BROWSER_RETENTION))
