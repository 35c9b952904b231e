"""What all parts of the accounts stand on: transactions that come one after the other, the clock and the settings.

Example:
    >>> class Counting(Turns):
    ...     def there(self) -> int:
    ...         return self._read(lambda connection: connection.scalar(sql.select(sql.func.count()).select_from(persons)))

Changes come one after the other, so that the last admin cannot be lost between two of them; on PostgreSQL they take a turn of
their own, so nobody who logs in waits for the scorer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import NoReturn, TypeVar

import sqlalchemy as sql

from fingerprint.core.account import AuthenticationFailed
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Clock
from fingerprint.core.settings import Web
from fingerprint.store import database as desk_engine

ACCOUNT_LOCK_ID = 0x70656F70  # the advisory lock of PostgreSQL for changes of people: "peop" in ASCII

T = TypeVar("T")


class SerializedStore:
    """Reads as of one moment, writes all or nothing and in turn."""

    def __init__(self, engine: sql.Engine, clock: Clock, web: Web) -> None:
        self._engine, self._clock, self._web = engine, clock, web

    def _change(self, work: Callable[[sql.Connection, datetime], T]) -> T:
        return self._write(lambda connection: work(connection, self._clock.now()))

    def _write(self, work: Callable[[sql.Connection], T]) -> T:
        with desk_engine.translate_database_errors(self._engine.url):
            return desk_engine.run_write_transaction(
                self._engine, partial(_with_account_lock, work=work), desk_engine.ROW_VERSIONED
            )

    def _try_write(self, work: Callable[[sql.Connection], None]) -> None:
        """What may be written down, or else the next time."""
        with suppress(FingerprintError):
            self._write(work)

    def _read(self, work: Callable[[sql.Connection], T]) -> T:
        with (
            desk_engine.translate_database_errors(self._engine.url),
            self._engine.connect() as connection,
            connection.begin(),
        ):
            return work(connection)


def raise_refused(sentence: str) -> NoReturn:
    raise AuthenticationFailed(sentence)


def _with_account_lock(connection: sql.Connection, work: Callable[[sql.Connection], T]) -> T:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ACCOUNT_LOCK_ID})")
    return work(connection)
