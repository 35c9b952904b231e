"""How a desk is opened: its URL, connections, tables and their version; what a person is told if that fails.

Example:
    >>> place = place_of("sqlite:///fingerprint.sqlite")
    >>> with plainly(place):
    ...     prepare(engine_of(place), create=True)
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sql
from sqlalchemy import exc

from fingerprint.core import private_files
from fingerprint.core.alert import FingerprintError, ServerUnavailable
from fingerprint.core.extras import how_to_install
from fingerprint.store import every_table as _every  # noqa: F401 - a table that nobody named is forgotten
from fingerprint.store import migrate, password_file
from fingerprint.store import schema as tables

LOCK_TIMEOUT_SECONDS = 30  # how long a desk waits for another writer
WRITER_LOCK_ID = 0x6465736B  # the advisory lock of a PostgreSQL desk's writers: "desk" in ASCII
RETRYABLE_SQLSTATES = ("40001", "40P01")  # PostgreSQL's serialization_failure and deadlock_detected
SERIALIZED, ROW_VERSIONED = (
    "turn",
    "rows",
)  # how one writes to PostgreSQL: when it is one's turn, or to rows that have versions, at any time
MAX_ATTEMPTS = 5  # that a transaction is tried
CONNECTION_TIMEOUTS = {  # with a server that does not answer; what the URL says goes first
    "connect_timeout": "10",  # seconds
    "tcp_user_timeout": "30000",  # milliseconds
}
ENCODING_OPTIONS = {"client_encoding": "utf8"}  # of a database without an encoding psycopg would give bytes

CACHE_KIB = (
    32 * 1024
)  # of each connection to SQLite: what counting a queue of 100,000 alerts reads; by itself it has 2 MiB
POOL_OPTIONS = {
    "pool_size": 5,
    "max_overflow": 45,
}  # connections kept, and as many more as people may want at once

T = TypeVar("T")


def parse_database_url(url: str) -> sql.URL:
    """A URL of a database that can be a desk. Raises FingerprintError, without the URL: it may hold a
    password."""
    try:
        place = sql.make_url(url)
        name = "postgresql" if place.drivername == "postgres" else place.get_backend_name()
    except (exc.ArgumentError, ValueError):
        raise FingerprintError(
            "what the desk was named by is no URL; one is sqlite:///fingerprint.sqlite"
        ) from None
    if name not in ("sqlite", "postgresql"):
        raise FingerprintError(f"desk {place}: {name} is not supported, sqlite:// and postgresql:// are")
    password_file.check_password_source(place)
    return place if name == "sqlite" else place.set(drivername="postgresql+psycopg")


def is_sqlite_file(url: sql.URL) -> bool:
    """Whether the desk is a file of this machine."""
    return url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")


def create_store_engine(url: sql.URL) -> sql.Engine:
    """Connections to a desk; those of SQLite take their locks as the option `writing` says."""
    if url.get_backend_name() != "sqlite":
        return _create_postgresql_engine(url)
    if is_sqlite_file(url):
        _create_sqlite_file(url)
    pool: dict[str, Any] = POOL_OPTIONS if is_sqlite_file(url) else {"poolclass": sql.pool.StaticPool}
    engine = sql.create_engine(
        url, connect_args={"timeout": LOCK_TIMEOUT_SECONDS, "check_same_thread": False}, **pool
    )
    sql.event.listen(engine, "connect", _set_up_sqlite)
    sql.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _create_sqlite_file(url: sql.URL) -> None:
    """Make the file of a desk for its owner alone, if it is not there: SQLite gives those beside it (-wal, -shm) its mode.
    Warn of one that others can read: it holds records and hashes of passwords."""
    file = Path(str(url.database))
    if not (folder := file.absolute().parent).is_dir():
        raise FingerprintError(f"desk {url}: the folder {folder} does not exist")
    if not url.query:  # SQLite's own URIs say more than a path
        with suppress(OSError):  # SQLite says it better
            os.close(private_files.private_opener(str(file), os.O_RDWR | os.O_CREAT))
        private_files.warn_if_exposed(file)


def _create_postgresql_engine(url: sql.URL) -> sql.Engine:
    """Connections to PostgreSQL; one that was lost since its last use is made anew (`pool_pre_ping`)."""
    patience = {name: value for name, value in CONNECTION_TIMEOUTS.items() if name not in url.query}
    there, file = password_file.split_password_file(url)
    engine = sql.create_engine(
        there, connect_args=patience | ENCODING_OPTIONS, pool_pre_ping=True, **POOL_OPTIONS
    )
    if file is not None:
        password_file.read_password_on_connect(engine, url, file)
    sql.event.listen(engine, "begin", _begin_postgresql)
    return engine


def _begin_postgresql(connection: sql.Connection) -> None:
    """As on SQLite: one writer at a time, who sees what the one before wrote and is waited for so long; whoever reads sees the
    desk as of one moment. Whoever writes to rows that have versions takes no turn. Times are told in UTC: the last hours of
    year 9999 lie beyond what Python knows in other zones."""
    writing = connection.get_execution_options().get("writing")
    connection.exec_driver_sql(
        f"SET TRANSACTION ISOLATION LEVEL {'READ COMMITTED' if writing else 'REPEATABLE READ'};"
        f"SET LOCAL TIME ZONE 'UTC'; SET LOCAL lock_timeout = '{1000 * LOCK_TIMEOUT_SECONDS:.0f}ms'"
    )
    if writing == SERIALIZED:
        acquire_writer_lock(connection)


def acquire_writer_lock(connection: sql.Connection) -> None:
    """Wait for whoever writes in turns, and be one of them until the end of the transaction; on SQLite every writer is."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITER_LOCK_ID})")


def run_write_transaction(
    engine: sql.Engine, work: Callable[[sql.Connection], T], locking: str = SERIALIZED
) -> T:
    """What `work` gives, in one transaction of a writer; begun anew, a few times, where PostgreSQL ended it so that somebody
    beside the desk could go on."""
    for left in reversed(range(MAX_ATTEMPTS)):
        try:
            with engine.connect().execution_options(writing=locking) as connection, connection.begin():
                return work(connection)
        except exc.DBAPIError as error:
            if not left or getattr(error.orig, "sqlstate", None) not in RETRYABLE_SQLSTATES:
                raise
    raise AssertionError("the last time either returns or raises")


def _set_up_sqlite(connection: Any, _: Any) -> None:
    """Readers see the last commit while a writer writes; sqlite3 begins no transactions of its own."""
    connection.isolation_level = None
    with suppress(sqlite3.OperationalError):  # locked: somebody else is setting it, and the file remembers
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
    connection.create_function("small_letters", 1, str.lower, deterministic=True)  # for `desk_filter`


def _begin_sqlite(connection: sql.Connection) -> None:
    """A writer takes its lock first: one that has read before would be refused without waiting."""
    writing = connection.get_execution_options().get("writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def prepare_schema(engine: sql.Engine, create: bool) -> None:
    """Make the tables where there are none, if `create`; bring those of an earlier version up to date. Raises FingerprintError
    for what is no desk, or a newer one."""
    with engine.connect() as connection, connection.begin():
        _check_encoding(connection)
        if _is_schema_current(connection, create):
            return
    run_write_transaction(engine, lambda writer: _migrate_if_needed(writer, create))


def _check_encoding(connection: sql.Connection) -> None:
    """A database that takes any bytes, or not all letters, would lose what records say."""
    if connection.dialect.name != "postgresql":
        return
    if (encoding := connection.scalar(sql.text("SHOW server_encoding"))) != "UTF8":
        raise FingerprintError(
            f"desk {connection.engine.url} is kept in {encoding}: make its database with ENCODING 'UTF8' TEMPLATE template0"
        )


def _migrate_if_needed(connection: sql.Connection, create: bool) -> None:
    """When it is this program's turn: whoever came before may have done it."""
    if not _is_schema_current(connection, create):
        migrate.upgrade_schema(connection)


def _is_schema_current(connection: sql.Connection, create: bool) -> bool:
    """Whether the desk is up to date; False where tables have to be made or changed first."""
    present = set(sql.inspect(connection).get_table_names())
    if present.isdisjoint(tables.REQUIRED_TABLES):
        if not create:
            raise FingerprintError(
                f"{connection.engine.url} holds no desk yet: `fingerprint score` makes one"
            )
        return False
    if not present >= tables.REQUIRED_TABLES:
        raise FingerprintError(
            f"{connection.engine.url} holds tables ({', '.join(sorted(present & tables.REQUIRED_TABLES))}) that are no desk's"
        )
    if (version := _schema_version(connection)) < migrate.latest_schema_version():
        return False
    if version > migrate.latest_schema_version():
        raise FingerprintError(
            f"desk {connection.engine.url} was made by a newer fingerprint (version {version}, known is "
            f"{migrate.latest_schema_version()}): upgrade, or name another with --database"
        )
    return True


def _schema_version(connection: sql.Connection) -> int:
    said = connection.scalar(sql.select(tables.meta.c.value).where(tables.meta.c.name == "version")) or ""
    if not (said.isascii() and said.isdecimal()):
        raise FingerprintError(f"{connection.engine.url} holds a table meta without a version: it is no desk")
    return int(said)


@contextmanager
def translate_database_errors(url: sql.URL) -> Iterator[None]:
    """What the database refuses, as one sentence; Away where it does not answer. A driver that repeats a password is masked."""
    try:
        yield
    except ModuleNotFoundError:
        raise FingerprintError(f"desk {url}: {how_to_install('postgres')} is needed for it") from None
    except exc.SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        away = isinstance(error, exc.OperationalError | exc.TimeoutError)
        raise (ServerUnavailable if away else FingerprintError)(f"desk {url}: {reason}") from None
