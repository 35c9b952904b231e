"""Databases whose tables are made by one run of the migrations: the others of the process get the same statements at once.

Alembic takes a tenth of a second for a new database, more than most tests of the store. `tests/store/test_migrate.py` tests the
migrations themselves, without this.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

import sqlalchemy as sql

from fingerprint.store import migrate
from fingerprint.store.database import is_sqlite_file

migrations = migrate.upgrade_schema
prepare_schema = migrate.prepare_schema


class MigratedOnce:
    """In place of `migrate.upgrade_schema`: keep what it said to the first new database of each kind, and say it to the next."""

    def __init__(self) -> None:
        self.statements: dict[str, list[tuple[str, Any]]] = {}

    def __call__(self, connection: sql.Connection, to: str = "head") -> None:
        kind = connection.dialect.name
        if to != "head" or sql.inspect(connection).get_table_names():
            migrations(connection, to)
        elif kind in self.statements:
            for statement, parameters in self.statements[kind]:
                connection.exec_driver_sql(statement, parameters)
        else:
            self.statements[kind] = _heard(connection)


def _heard(connection: sql.Connection) -> list[tuple[str, Any]]:
    """Run the migrations; return the statements that changed the database, with their parameters."""
    statements: list[tuple[str, Any]] = []

    def hear(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if statement.split(maxsplit=1)[0].upper() in (
            "CREATE",
            "ALTER",
            "INSERT",
            "UPDATE",
            "DELETE",
            "DROP",
        ):
            statements.append((statement, parameters or None))

    sql.event.listen(connection, "before_cursor_execute", hear)
    try:
        migrations(connection)
    finally:
        sql.event.remove(connection, "before_cursor_execute", hear)
    return statements


class PreparedOnce:
    """In place of `open_store`'s `prepare_schema`: new SQLite files are copies of the first, in a quarter of the CPU."""

    def __init__(self) -> None:
        self.lock = Lock()  # of those who open one file at once, one fills it
        self.image = b""

    def __call__(self, engine: sql.Engine, create: bool) -> None:
        file = Path(str(engine.url.database))
        with self.lock:
            new = create and _is_new(engine, file) and isinstance(migrate.upgrade_schema, MigratedOnce)
            if new and self.image:
                file.write_bytes(self.image)
        prepare_schema(engine, create)
        if new and not self.image:
            with closing(sqlite3.connect(file)) as connection:
                self.image = connection.serialize()


def _is_new(engine: sql.Engine, file: Path) -> bool:
    return is_sqlite_file(engine.url) and not engine.url.query and file.is_file() and not file.stat().st_size
