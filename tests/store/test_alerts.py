"""The alert store: SQLite and PostgreSQL keep the contract; what cannot be an alert store is refused in one sentence."""

from __future__ import annotations

import itertools
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy.dialects import postgresql as postgres

from fingerprint.core.errors import FingerprintError
from fingerprint.store import database, open_store, schema, store_exists
from fingerprint.store.alerts import upsert_statement
from tests.contracts.alert_store import StoreContract
from tests.contracts.message_stream import wait_until
from tests.support.alerts import new_pipeline, stolen_session, votes
from tests.support.forked import PROCESSES
from tests.support.saved_in_parts import save_part_of_alerts


class TestSqlite(StoreContract):
    @pytest.fixture
    def make_store(self, tmp_path):
        numbers = itertools.count()
        return lambda: open_store(f"sqlite:///{tmp_path}/{next(numbers)}.sqlite")


class TestPostgres(StoreContract):
    @pytest.fixture
    def make_store(self, postgresql_stores):
        with postgresql_stores.lent() as make:
            yield make


def test_a_store_in_memory_is_one_for_all_threads_and_for_no_other_store():
    store, alert = open_store("sqlite://"), stolen_session()
    store.alerts.save([alert], votes(alert))
    with ThreadPoolExecutor(1) as other:
        assert other.submit(store.alerts.by_urgency).result() == [alert]
        assert len(other.submit(store.votes.read).result()) == len(store.votes.read()) > 0
    assert open_store("sqlite://").alerts.by_urgency() == []


def test_a_store_is_the_same_one_when_it_is_opened_again(tmp_path):
    url = f"sqlite:///{tmp_path}/alerts.sqlite"
    open_store(url).alerts.save([stolen_session()])
    assert open_store(url).alerts.by_urgency() == [stolen_session()]
    assert open_store(url, create=False).alerts.by_urgency() == [stolen_session()]


def test_anyone_who_only_reads_makes_no_store(tmp_path):
    with pytest.raises(FingerprintError, match="there is no database"):
        open_store(f"sqlite:///{tmp_path}/alerts.sqlite", create=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("not a url", "is named by a URL"),
        ("", "is named by a URL"),
        ("sqlite:///{folder}/missing/alerts.sqlite", "does not exist"),
        ("sqlite:///{folder}", "unable to open"),
        ("mysql://user:secret@host/db", "not supported"),
        ("nonsense://x", "not supported"),
        ("postgresql://user@127.0.0.1:1/db", "database postgresql"),
        ("postgres://user@127.0.0.1:1/db", "database postgresql"),
    ],
)
def test_a_url_that_cannot_be_a_store_is_one_sentence_without_its_password(tmp_path, url, why):
    with pytest.raises(FingerprintError, match=why) as caught:
        open_store(url.format(folder=tmp_path))
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    file = tmp_path / "alerts.sqlite"
    file.write_bytes(b"eventTime,eventName\n" * 500)
    with pytest.raises(FingerprintError, match="not a database of SQLite: name another"):
        open_store(f"sqlite:///{file}")
    assert file.read_bytes().startswith(b"eventTime")


def test_someone_elses_tables_are_not_taken_for_a_store(tmp_path):
    file = tmp_path / "other.sqlite"
    sqlite3.connect(file).execute("CREATE TABLE alerts (name TEXT)").connection.close()
    with pytest.raises(FingerprintError, match="not those of an alert store"):
        open_store(f"sqlite:///{file}")


def test_whether_there_is_a_store_can_be_asked_and_makes_none(tmp_path):
    file = tmp_path / "alerts.sqlite"
    assert not store_exists(f"sqlite:///{file}")
    assert not file.exists()
    sqlite3.connect(file).execute("CREATE TABLE people (name TEXT)").connection.close()
    assert not store_exists(f"sqlite:///{file}")  # a database that others use already
    open_store(f"sqlite:///{file}").close()
    assert store_exists(f"sqlite:///{file}")
    assert not store_exists("sqlite://")
    file.write_bytes(b"eventTime,eventName\n" * 500)
    with pytest.raises(FingerprintError, match="not a database"):
        store_exists(f"sqlite:///{file}")


@pytest.mark.parametrize(("version", "why"), [("99", "newer fingerprint"), ("x", "without a version")])
def test_a_store_of_a_later_version_is_refused(tmp_path, version, why):
    file = tmp_path / "alerts.sqlite"
    open_store(f"sqlite:///{file}").close()
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE meta SET value = ?", (version,))
    with pytest.raises(FingerprintError, match=why):
        open_store(f"sqlite:///{file}")


def test_scorers_that_start_together_share_a_fresh_store(tmp_path):
    url = f"sqlite:///{tmp_path}/alerts.sqlite"

    def score(name: int) -> int:
        store = open_store(url)
        for number in range(10):
            store.alerts.save([stolen_session(alert_id=f"{name}-{number}")], votes(stolen_session()))
            store.alerts.by_urgency(limit=1)
        return len(store.alerts.by_urgency(raw=False))

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(score, range(4))) == 40


@pytest.mark.parametrize("table", schema.metadata.sorted_tables, ids=str)
def test_the_statements_are_postgresqls_too(table):
    statement = str(upsert_statement(postgres.insert(table)).compile(dialect=postgres.dialect()))
    assert "ON CONFLICT" in statement
    assert "excluded" in statement or all(column.primary_key for column in table.columns)


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


def test_two_programs_that_save_the_same_alerts_at_once_lose_nothing(postgresql):
    url, ready = postgresql.fresh(), PROCESSES.Barrier(2)
    open_store(url).close()
    programs = [
        PROCESSES.Process(target=save_part_of_alerts, args=(url, which, ready)) for which in ("early", "late")
    ]
    for each in programs:
        each.start()
    for each in programs:
        each.join(60)
    assert [each.exitcode for each in programs] == [0, 0]
    store, whole = open_store(url), stolen_session()
    found = store.alerts.by_urgency()
    assert len(found) == 200
    assert {each.event_ids for each in found} == {whole.event_ids}
    spans = {(each.first_event_time, each.last_event_time) for each in found}
    assert spans == {(whole.events[0].event_time, whole.events[-1].event_time)}
    store.close()


def _waits_for_a_lock(postgresql) -> bool:
    asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with postgresql.talk() as beside:
        return beside.execute(asked).fetchone()[0] > 0


def test_a_save_that_postgresql_ended_for_someone_elses_sake_is_begun_again(postgresql):
    """The someone is beside the alert store and takes rows the other way round: a deadlock."""
    url = postgresql.fresh()
    store = open_store(url)
    both = [stolen_session(alert_id="a"), stolen_session(alert_id="b")]
    store.alerts.save(both)
    newer = [replace(alert, title="newer") for alert in both]
    with postgresql.talk(url) as beside, ThreadPoolExecutor(1) as pool:
        beside.execute(
            "SET deadlock_timeout = '1min'"
        )  # so that the alert store finds it first, after a second
        beside.execute("BEGIN; UPDATE alert_events SET raw = 'beside' WHERE alert_id = 'b'")
        saving = pool.submit(store.alerts.save, newer)
        wait_until(lambda: _waits_for_a_lock(postgresql), "the alert store waits")
        beside.execute("UPDATE alert_events SET raw = 'beside' WHERE alert_id = 'a'; COMMIT")
        saving.result(30)
    with postgresql.talk(url) as beside:
        (deadlocks,) = beside.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert deadlocks > 0
    assert store.alerts.by_urgency() == newer
    store.close()


def test_a_writer_that_does_not_end_is_waited_for_and_then_named(postgresql, monkeypatch):
    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.05)
    url = postgresql.fresh()
    store = open_store(url)
    with postgresql.talk(url) as beside:
        beside.execute(f"BEGIN; SELECT pg_advisory_xact_lock({database.Locking.SERIALIZED.value})")
        with pytest.raises(FingerprintError, match="lock timeout"):
            store.alerts.save([stolen_session()])
        assert store.alerts.by_urgency() == []  # who reads waits for no one
    store.alerts.save([stolen_session()])
    assert store.alerts.by_urgency() == [stolen_session()]
    store.close()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_store_outlives_a_restart_of_its_server(postgresql, end):
    store = open_store(postgresql.fresh())
    store.alerts.save([stolen_session()])
    getattr(postgresql, end)()
    try:
        for ask in (store.alerts.by_urgency, lambda: store.alerts.save([new_pipeline()])):
            with pytest.raises(FingerprintError, match=r"database postgresql.*connection") as caught:
                ask()
            assert "\n" not in str(caught.value)
    finally:
        postgresql.start()
    assert store.alerts.by_urgency() == [stolen_session()]
    postgresql.stop()
    postgresql.start()
    store.alerts.save([new_pipeline()])  # no one asked while it was away
    assert store.alerts.by_urgency() == [stolen_session(), new_pipeline()]
    store.close()


def test_programs_that_start_together_make_one_store_on_a_server(postgresql):
    url = postgresql.fresh()
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(open_store, [url] * 4))
    assert store_exists(url)
    assert [store.alerts.by_urgency() for store in stores] == [[]] * 4
    for store in stores:
        store.close()


def test_times_at_the_end_of_the_calendar_come_back_whatever_the_zone_of_the_server(postgresql):
    store, last = open_store(postgresql.fresh()), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    store.alerts.save([stolen_session(last_event_time=last)])
    assert store.alerts.by_urgency()[0].last_event_time == last
    store.close()


def test_a_database_without_an_encoding_is_refused_with_what_to_do(postgresql):
    bare = "ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE_PROVIDER libc LC_COLLATE 'C' LC_CTYPE 'C'"
    with postgresql.talk() as connection:
        connection.execute(f"CREATE DATABASE bytes_alone {bare}")
    with pytest.raises(FingerprintError, match="encoding SQL_ASCII: create it with ENCODING 'UTF8'"):
        open_store(postgresql.url("bytes_alone"))
