"""A query that takes too long is stopped on SQLite and PostgreSQL, and nothing else is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sql

from fingerprint.core.case import AlertFilter
from fingerprint.core.errors import FingerprintError, QueryTimeout, ServerUnavailable
from fingerprint.store import SqlStore, open_store
from fingerprint.store.database import (
    VISITOR_UNAVAILABLE,
    Session,
    create_store_engine,
    parse_database_url,
)

COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT count(*) FROM n"
A_WHILE, LONG = 300_000, 30_000_000  # at least 30 ms, and 3 seconds
BRIEF = 0.005  # seconds


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path) -> Iterator[SqlStore]:
    file = f"sqlite:///{tmp_path}/alerts.sqlite"
    url = file if request.param == "sqlite" else request.getfixturevalue("postgresql").fresh()
    with closing(open_store(url)) as store:
        yield store


def count(connection: sql.Connection, to: int = A_WHILE) -> int | None:
    return connection.scalar(sql.text(COUNT.format(to)))


def test_a_slow_query_is_stopped_and_the_next_one_is_answered(store, caplog: pytest.LogCaptureFixture):
    limited = store.for_visitors(0.2)
    with pytest.raises(QueryTimeout, match=r"took more than 0\.2 seconds and was stopped: narrow it"):
        limited.session.read(lambda connection: count(connection, LONG))
    assert caplog.records[-1].getMessage() == "a query was stopped"
    assert limited.queue.counts(AlertFilter())["critical"] == 0


def test_neither_a_writer_nor_a_reader_without_a_limit_is_stopped(store):
    """They share the connections of those with one."""
    limited = store.for_visitors(BRIEF)
    for run in (store.session.read, limited.session.write):
        with pytest.raises(QueryTimeout):
            limited.session.read(count)
        assert run(count) == A_WHILE


def test_what_visitors_see_of_an_error_does_not_name_the_server_which_the_log_does(
    store, caplog: pytest.LogCaptureFixture
):
    """Who has not logged in sees it too: an address, an account and a name of a database are for who attacks it."""
    shared, where = store.for_visitors(10.0), str(store.session.engine.url)
    for run in (store.session.read, store.session.write):
        with pytest.raises(FingerprintError, match=re.escape(where)):
            run(lambda connection: connection.execute(sql.text("SELECT 1 FROM nowhere")))
    for run in (shared.session.read, shared.session.write):
        with pytest.raises(FingerprintError, match="this server's log says why") as caught:
            run(lambda connection: connection.execute(sql.text("SELECT 1 FROM nowhere")))
        assert where not in str(caught.value)
        assert where in caplog.records[-1].fields["reason"]


def test_visitors_do_not_see_where_the_password_of_the_database_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """It may be away for a moment: a rotation writes it again. It is read before anything connects."""
    url = parse_database_url(f"postgresql://alerts@db.internal/alerts?password_file={tmp_path}/password")
    session = Session(create_store_engine(url))
    with pytest.raises(ServerUnavailable, match=f"password file {tmp_path}/password cannot be read"):
        session.read(count)
    visitors = session.for_visitors(10.0)
    for run in (visitors.read, visitors.write):
        with pytest.raises(ServerUnavailable) as caught:
            run(count)
        assert str(caught.value) == VISITOR_UNAVAILABLE
        assert f"{tmp_path}/password" in caplog.records[-1].fields["reason"]


def test_every_repository_of_a_limited_store_has_the_limit(store):
    limited = store.for_visitors(BRIEF)
    own = [value for name, value in vars(limited).items() if name != "session"]
    assert len(own) == len(vars(store)) - 1
    assert {each._session for each in own} == {limited.session}


def test_a_commit_on_sqlite_survives_a_loss_of_power(tmp_path: Path):
    """In the WAL mode SQLite syncs each commit only with FULL (2): else an alert is gone that the checkpoint calls saved."""
    with closing(open_store(f"sqlite:///{tmp_path}/alerts.sqlite")) as store:
        connections = [store.alerts._session.engine.connect() for _ in range(2)]
        pragmas = sql.text("PRAGMA journal_mode"), sql.text("PRAGMA synchronous")
        modes = [tuple(map(connection.scalar, pragmas)) for connection in connections]
        for connection in connections:
            connection.close()
    assert modes == [("wal", 2)] * 2
