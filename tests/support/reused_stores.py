"""Alert stores on a PostgreSQL server for the tests of a file: one that a test is done with is emptied for the next.

A database of its own for every test costs five times what most tests do with it: its files are copied, connections begin
and end.

Example:
    >>> with reused.lent(now=clock) as make_store:
    ...     make_store().alerts.by_urgency()
    []
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import sqlalchemy as sql

from fingerprint.core.redaction import Redactor
from fingerprint.store import SqlStore, compose_store, open_store
from fingerprint.store.database import NowFunction, Session, utc_now
from fingerprint.store.schema import metadata
from tests.support.services.postgres import Postgres

Rows = dict[sql.Table, Sequence[sql.RowMapping]]
COUNTERS = """
SELECT setval((quote_ident(schemaname) || '.' || quote_ident(sequencename))::regclass, start_value, false) FROM pg_sequences
"""


class ReusedStores:
    """The stores of one server that no test has at the moment, each as empty as a new one."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self._all: list[SqlStore] = []
        self._idle: list[SqlStore] = []
        self._rows: Rows = {}  # of a new store, such as the version of its tables

    @contextmanager
    def lent(self, now: NowFunction = utc_now) -> Iterator[Callable[..., SqlStore]]:
        """Give a function to a fresh store with this clock; take all of them back when the block ends."""
        taken: list[SqlStore] = []

        def take(now: NowFunction = now, redact: Sequence[str] = ()) -> SqlStore:
            taken.append(self._idle.pop() if self._idle else self._made())
            return compose_store(Session(taken[-1].session.engine, now), Redactor(redact))

        try:
            yield take
        finally:
            for store in taken:
                self._empty(store)
            self._idle += taken

    def close(self) -> None:
        """Close all connections."""
        for store in self._all:
            store.close()

    def _made(self) -> SqlStore:
        store = open_store(self._server.fresh())
        self._all.append(store)
        with store.session.engine.connect() as connection:
            for table in metadata.sorted_tables if not self._rows else ():
                if rows := connection.execute(sql.select(table)).mappings().all():
                    self._rows[table] = rows
        return store

    def _empty(self, store: SqlStore) -> None:
        """Leave the rows and the counters of a new store; without triggers, which keep the audit from being deleted."""
        deletions = ";".join(f"DELETE FROM {table.name}" for table in metadata.sorted_tables)  # noqa: S608
        with store.session.engine.begin() as connection:
            connection.exec_driver_sql(f"SET LOCAL session_replication_role = replica;{deletions}")
            connection.exec_driver_sql(COUNTERS)
            for table, rows in self._rows.items():
                connection.execute(sql.insert(table), [dict(row) for row in rows])
