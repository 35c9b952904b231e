"""Open the database of the alert store: its URL, password, connections, locks and transactions.

Example:
    >>> url = parse_database_url("sqlite:///fingerprint.sqlite")
    >>> session = Session(create_store_engine(url))
    >>> session.write(lambda connection: connection.execute(sql.insert(meta).values(name="a", value="b")))

SQLite has one writer at a time. On PostgreSQL, each writing transaction names its lock by a `Locking`. A password is never part
of the URL, because settings, process lists and descriptions of containers show the URL. It is read from a file
(`?password_file=...`) at each new connection, so it can be changed while programs run.
"""

from __future__ import annotations

import copy
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import sqlalchemy as sql
from sqlalchemy import exc

from fingerprint.core import private_files
from fingerprint.core.credentials import holds_credentials
from fingerprint.core.errors import FingerprintError, NotFound, QueryTimeout, ServerUnavailable
from fingerprint.core.extras import how_to_install
from fingerprint.core.log import get_logger

LOCK_TIMEOUT_SECONDS = 30  # time that a writer waits for another one
RETRYABLE_SQLSTATES = ("40001", "40P01")  # PostgreSQL's serialization_failure and deadlock_detected
QUERY_CANCELED_SQLSTATE = "57014"  # PostgreSQL's, after statement_timeout or by hand
MAX_ATTEMPTS = 5  # of one transaction
PROGRESS_INSTRUCTIONS = 10_000  # SQLite's instructions between two checks of the clock: some 0.1 ms
CONNECTION_TIMEOUTS = {  # for a server that does not answer; options in the URL take precedence
    "connect_timeout": "10",  # seconds
    "tcp_user_timeout": "30000",  # milliseconds
}
ENCODING_OPTIONS = {"client_encoding": "utf8"}  # if a database has no encoding, psycopg would return bytes
CACHE_KIB = (
    32 * 1024
)  # of a SQLite connection: as much as a count of 100,000 alerts reads; the default is 2 MiB
POOL_OPTIONS = {"pool_size": 5, "max_overflow": 45}  # connections kept, and additional ones under load
PASSWORD_FILE_PARAMETER = "password_file"  # noqa: S105 - the name of a parameter of the URL

VISITOR_UNAVAILABLE = "the alert store does not answer: try again in a moment; this server's log says why"
VISITOR_REFUSED = "the alert store refuses this; this server's log says why"

log = get_logger("fingerprint.store")

P = ParamSpec("P")
T = TypeVar("T")
NowFunction = Callable[[], datetime]


class Locking(Enum):
    """The lock of a writing transaction on PostgreSQL; the value is the advisory lock. SQLite always has one writer at a time."""

    SERIALIZED = 0x73746F72  # one writer at a time, which sees the writes of the one before ("stor" in ASCII)
    ROW_VERSIONS = (
        None  # no lock: versions of rows are compared, so the transaction does not wait for the scorer
    )
    # One writer of accounts at a time, so that two at once cannot remove the last admin ("acct").
    ACCOUNTS = 0x61636374


def utc_now() -> datetime:
    """Return the machine's time in UTC."""
    return datetime.now(UTC)


# --- transactions -----------------------------------------------------------------------------------------------------


class Session:
    """The engine and the clock that all repositories share, and their transactions.

    With a `query_timeout` (seconds) the session is for visitors of the web app:
    - A query that reads for longer is stopped with QueryTimeout. Statements of writers have LOCK_TIMEOUT_SECONDS instead, because
      writers wait for each other.
    - Errors do not name the server, because visitors who have not logged in may see them. Only the log names it.
    """

    def __init__(
        self, engine: sql.Engine, now: NowFunction = utc_now, query_timeout: float | None = None
    ) -> None:
        self.engine, self.now, self.query_timeout = engine, now, query_timeout

    def for_visitors(self, query_timeout: float) -> Session:
        """Return a session over the same connections for visitors of the web app."""
        return Session(self.engine, self.now, query_timeout)

    def with_clock(self, now: NowFunction) -> Session:
        """Return the same session with another clock."""
        return Session(self.engine, now, self.query_timeout)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """Open a transaction that sees the database at one point in time."""
        with (
            translate_database_errors(self.engine.url, self.query_timeout),
            self.engine.connect().execution_options(query_timeout=self.query_timeout) as connection,
            connection.begin(),
        ):
            yield connection

    def read(self, work: Callable[[sql.Connection], T]) -> T:
        """Return the result of `work` in a transaction that sees the database at one point in time."""
        with self.reading() as connection:
            return work(connection)

    def write(self, work: Callable[[sql.Connection], T], locking: Locking = Locking.SERIALIZED) -> T:
        """Return the result of `work` in one writing transaction, which is repeated after a deadlock."""
        with translate_database_errors(self.engine.url, self.query_timeout):
            return run_write_transaction(self.engine, work, locking)


class Repository:
    """Base of the repositories. Each is for the rows of one noun, and each public method is one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def over(self, session: Session) -> Self:
        """Return the same repository over another session."""
        same = copy.copy(self)
        same._session = session
        return same


R = TypeVar("R", bound=Repository)


def reads(method: Callable[Concatenate[R, sql.Connection, P], T]) -> Callable[Concatenate[R, P], T]:
    """Decorate a method so that it runs in a reading transaction, whose connection is its first argument."""

    @wraps(method)
    def run(self: R, /, *args: P.args, **options: P.kwargs) -> T:
        return self._session.read(lambda connection: method(self, connection, *args, **options))

    return run


def writes(
    locking: Locking,
) -> Callable[
    [Callable[Concatenate[R, sql.Connection, P], T]],
    Callable[Concatenate[R, P], T],
]:
    """Decorate a method so that it runs in a writing transaction, whose connection is its first argument.

    The method may run several times, so it must not change anything except the database.
    """

    def decorate(
        method: Callable[Concatenate[R, sql.Connection, P], T],
    ) -> Callable[Concatenate[R, P], T]:
        @wraps(method)
        def run(self: R, /, *args: P.args, **options: P.kwargs) -> T:
            return self._session.write(lambda connection: method(self, connection, *args, **options), locking)

        return run

    return decorate


def run_write_transaction(
    engine: sql.Engine, work: Callable[[sql.Connection], T], locking: Locking = Locking.SERIALIZED
) -> T:
    """Return the result of `work` in one writing transaction; repeat it if PostgreSQL aborted it in favour of another."""
    for attempts_left in reversed(range(MAX_ATTEMPTS)):
        try:
            with engine.connect().execution_options(writing=locking) as connection, connection.begin():
                return work(connection)
        except exc.DBAPIError as error:
            if not attempts_left or getattr(error.orig, "sqlstate", None) not in RETRYABLE_SQLSTATES:
                raise
    raise AssertionError("the last attempt either returns or raises")


def acquire_writer_lock(connection: sql.Connection, locking: Locking = Locking.SERIALIZED) -> None:
    """Take the lock until the end of the transaction, after other writers of this kind. On SQLite every writer has it already."""
    if connection.dialect.name == "postgresql" and locking.value is not None:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({locking.value})")


def _begin_postgresql(connection: sql.Connection) -> None:
    """Begin a transaction with SQLite's guarantees.

    - Readers see the database at one point in time. Their queries are planned for the actual values, because a value that all
      alerts have needs another plan than a rare one.
    - Times are in UTC, because Python cannot represent the last hours of the year 9999 in all other zones.
    - JIT compilation is off, because compiling a page's query takes longer than running it.
    """
    options = connection.get_execution_options()
    writing: Locking | None = options.get("writing")
    isolation, plans = ("READ COMMITTED", "auto") if writing else ("REPEATABLE READ", "force_custom_plan")
    seconds = options.get("query_timeout")
    limit = f"; SET LOCAL statement_timeout = '{1000 * seconds:.0f}ms'" if seconds else ""
    connection.exec_driver_sql(
        f"SET TRANSACTION ISOLATION LEVEL {isolation}; SET LOCAL plan_cache_mode = {plans}; SET LOCAL jit = off; "
        f"SET LOCAL TIME ZONE 'UTC'; SET LOCAL lock_timeout = '{1000 * LOCK_TIMEOUT_SECONDS:.0f}ms'{limit}"
    )
    if writing:
        acquire_writer_lock(connection, writing)


def _begin_sqlite(connection: sql.Connection) -> None:
    """Begin a transaction. A writer locks at once: after a read, SQLite would refuse the lock without waiting."""
    writing = connection.get_execution_options().get("writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _limit_sqlite_query(connection: sql.Connection, cursor: Any, *_: object) -> None:
    """Make SQLite stop the next statement when its time is over, by a progress handler: SQLite has no setting for that."""
    seconds = connection.get_execution_options().get("query_timeout")
    handler = None if seconds is None else _is_over(time.monotonic() + seconds)
    cursor.connection.set_progress_handler(handler, PROGRESS_INSTRUCTIONS)


def _is_over(deadline: float) -> Callable[[], bool]:
    return lambda: time.monotonic() > deadline


_NO_ANSWER = "no connection to its server: start PostgreSQL, or set database.url"
_REASONS = {
    "file is not a database": "the file is not a database of SQLite: name another with --database or database.url",
    "readonly database": "the file may not be written: change its permissions, or name another with --database",
    "unable to open database file": "unable to open the file: check that its folder exists and may be written",
    "disk is full": "its disk is full: free some room, it goes on by itself",
    "disk I/O error": "its disk is full or fails: free some room, or look at the machine's log",
    "database is locked": "another program is writing to it: try again when it is done",
    "Connection refused": _NO_ANSWER,
    "timeout expired": _NO_ANSWER,
    "could not translate host name": _NO_ANSWER,
    "failed to resolve host": _NO_ANSWER,
}
"""Our words for what the drivers say, by a part of it."""


@contextmanager
def translate_database_errors(url: sql.URL, query_timeout: float | None = None) -> Iterator[None]:
    """Raise errors of the database as FingerprintError, one sentence without passwords; ServerUnavailable without an answer.

    With a `query_timeout` (seconds) a query that was stopped is a QueryTimeout, and only the log names the server and the reason.
    """
    try:
        yield
    except ModuleNotFoundError:
        raise FingerprintError(f"database {url}: {how_to_install('postgres')} is needed for it") from None
    except ServerUnavailable as error:  # a new connection cannot read its password (`_read_password`)
        if query_timeout is None:
            raise
        raise _for_visitors(error) from None
    except exc.SQLAlchemyError as error:
        if query_timeout is not None and _was_stopped(error):
            log.warning("a query was stopped", seconds=query_timeout)
            raise QueryTimeout(query_timeout) from None
        theirs = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        reason = next((ours for part, ours in _REASONS.items() if part in theirs), theirs)
        unavailable = isinstance(error, exc.OperationalError | exc.TimeoutError)
        failure = (ServerUnavailable if unavailable else FingerprintError)(f"database {url}: {reason}")
        raise (failure if query_timeout is None else _for_visitors(failure)) from None


def _for_visitors(error: FingerprintError) -> FingerprintError:
    """Log an error, and return the error for visitors of the web app, which names neither the server nor its password file."""
    log.warning("the alert store fails", reason=str(error))
    if isinstance(error, ServerUnavailable):
        return ServerUnavailable(VISITOR_UNAVAILABLE)
    return FingerprintError(VISITOR_REFUSED)


def _was_stopped(error: exc.SQLAlchemyError) -> bool:
    """Return whether the database stopped a query before it was done."""
    theirs = getattr(error, "orig", None)
    if isinstance(theirs, sqlite3.Error):
        return getattr(theirs, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
    return getattr(theirs, "sqlstate", None) == QUERY_CANCELED_SQLSTATE


def no_such_alert(alert_id: str) -> NotFound:
    """Return the error for an alert that the store does not have."""
    return NotFound(f"there is no alert {alert_id!r}: the queue lists those there are")


# --- URL and engine ---------------------------------------------------------------------------------------------------


def parse_database_url(url: str) -> sql.URL:
    """Return a URL of SQLite or PostgreSQL. Raise FingerprintError, without the URL: it may hold a password."""
    if url == "none":
        raise FingerprintError(
            "alerts are kept in a database, and there is none: name one by a URL, for example sqlite:///fingerprint.sqlite. "
            "`--database none` is for `train`, which would only read there which events to leave out"
        )
    try:
        parsed = sql.make_url(url)
        name = "postgresql" if parsed.drivername == "postgres" else parsed.get_backend_name()
    except (exc.ArgumentError, ValueError):
        raise FingerprintError(
            "the database is named by a URL, for example sqlite:///fingerprint.sqlite; this is no URL"
        ) from None
    if name not in ("sqlite", "postgresql"):
        raise FingerprintError(f"database {parsed}: {name} is not supported, sqlite:// and postgresql:// are")
    check_password_source(parsed)
    return parsed if name == "sqlite" else parsed.set(drivername="postgresql+psycopg")


def is_sqlite_file(url: sql.URL) -> bool:
    """Return whether the database is an SQLite file."""
    return url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")


def create_store_engine(url: sql.URL) -> sql.Engine:
    """Return the engine of a database. The execution option `writing` of a connection determines its lock."""
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
    sql.event.listen(engine, "before_cursor_execute", _limit_sqlite_query)
    return engine


def _create_sqlite_file(url: sql.URL) -> None:
    """Create the file for its owner alone; warn if others can read it, because it has records and password hashes.

    SQLite gives the files beside it (-wal, -shm) the same mode.
    """
    file = Path(str(url.database))
    if not (folder := file.absolute().parent).is_dir():
        raise FingerprintError(f"database {url}: the folder {folder} does not exist")
    if not url.query:  # with a query it may be one of SQLite's own URIs, which is not only a path
        with suppress(OSError):  # SQLite's message is better
            os.close(private_files.private_opener(str(file), os.O_RDWR | os.O_CREAT))
        private_files.warn_if_exposed(file)


def _create_postgresql_engine(url: sql.URL) -> sql.Engine:
    """Return the engine of a PostgreSQL database; a broken connection is replaced at its next use (`pool_pre_ping`)."""
    timeouts = {name: value for name, value in CONNECTION_TIMEOUTS.items() if name not in url.query}
    server, file = split_password_file(url)
    engine = sql.create_engine(
        server, connect_args=timeouts | ENCODING_OPTIONS, pool_pre_ping=True, **POOL_OPTIONS
    )
    if file is not None:
        _read_password_on_connect(engine, url, file)
    sql.event.listen(engine, "begin", _begin_postgresql)
    return engine


def _set_up_sqlite(connection: Any, _: Any) -> None:
    """Set the WAL mode, in which readers see the last commit while a writer writes; let SQLAlchemy begin transactions.

    A commit survives a loss of power, as on PostgreSQL: the stream's checkpoint, which is synced, skips what is saved.
    """
    connection.isolation_level = None
    with suppress(
        sqlite3.OperationalError
    ):  # locked: another process is setting it, and the file keeps the mode
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")  # NORMAL would not sync a commit in the WAL mode
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")


# --- the password -----------------------------------------------------------------------------------------------------


def split_password_file(url: sql.URL) -> tuple[sql.URL, str | None]:
    """Return the URL for the driver, and the password file that the URL named, if any."""
    file = url.query.get(PASSWORD_FILE_PARAMETER)
    return url.difference_update_query([PASSWORD_FILE_PARAMETER]), file if isinstance(file, str) else None


def check_password_source(url: sql.URL) -> None:
    """Raise FingerprintError for a URL with a password, which the error does not repeat, or with an unusable password_file."""
    if url.password is not None or holds_credentials(url.render_as_string(hide_password=False)):
        raise FingerprintError(
            f"the URL of the database holds a password, which others would see: write it into a file and name that, "
            f"postgresql://user@host/database?{PASSWORD_FILE_PARAMETER}=/run/secrets/database-password, "
            "or leave it to PGPASSWORD or ~/.pgpass"
        )
    if (file := url.query.get(PASSWORD_FILE_PARAMETER)) is None:
        return
    if url.get_backend_name() == "sqlite":
        raise FingerprintError(
            f"database {url}: a SQLite file has no password; leave {PASSWORD_FILE_PARAMETER} out"
        )
    if not isinstance(file, str) or not file:
        raise FingerprintError(f"database {url}: give one password, in one {PASSWORD_FILE_PARAMETER}")


def _read_password_on_connect(engine: sql.Engine, url: sql.URL, file: str) -> None:
    """Make each new connection of the engine read its password from the file."""

    def add_password(dialect: Any, record: Any, positional: Any, named: dict[str, Any]) -> None:
        named["password"] = _read_password(url, file)

    sql.event.listen(engine, "do_connect", add_password)


def _read_password(url: sql.URL, file: str) -> str:
    """Return the password in a file.

    Raise ServerUnavailable if it cannot be read: a first start or a rotation may be about to write it.
    """
    private_files.warn_if_exposed(Path(file))
    try:
        password = Path(file).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ServerUnavailable(
            f"database {url}: the password file {file} cannot be read: {reason}"
        ) from None
    if not password:
        raise ServerUnavailable(
            f"database {url}: the password file {file} is empty; write the password into it"
        )
    return password
