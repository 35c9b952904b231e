"""What all parts of a desk stand on: its transactions, and its clock.

Example:
    >>> class Counting(Transactions):
    ...     def alerts_there(self) -> int:
    ...         return self._read(lambda connection: connection.scalar(sql.select(sql.func.count()).select_from(alerts)))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeVar

import sqlalchemy as sql

from fingerprint.store import database as desk_engine

T = TypeVar("T")
NowFunction = Callable[[], datetime]


def utc_now() -> datetime:
    """The machine's own clock."""
    return datetime.now(UTC)


class SqlStore:
    """A desk's engine: one reads as of one moment, and writes all or nothing."""

    def __init__(self, engine: sql.Engine, now: NowFunction = utc_now) -> None:
        self._engine, self._now = engine, now

    @property
    def engine(self) -> sql.Engine:
        """For what else rests in the same database (`desk_people`)."""
        return self._engine

    def close(self) -> None:
        self._engine.dispose()

    def _write(self, work: Callable[[sql.Connection], T], locking: str = desk_engine.SERIALIZED) -> T:
        """What `work` gives, in one transaction of a writer."""
        with desk_engine.translate_database_errors(self._engine.url):
            return desk_engine.run_write_transaction(self._engine, work, locking)

    def _read(self, work: Callable[[sql.Connection], T]) -> T:
        """What `work` gives, in one transaction of a reader."""
        with self._transaction() as connection:
            return work(connection)

    @contextmanager
    def _transaction(self) -> Iterator[sql.Connection]:
        """Of a reader."""
        with (
            desk_engine.translate_database_errors(self._engine.url),
            self._engine.connect() as connection,
            connection.begin(),
        ):
            yield connection
