"""A desk of every earlier version is brought up to date and keeps what lies on it; the steps make what the programs expect."""

from __future__ import annotations

import importlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sql
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import AlertFilter
from fingerprint.store import database as desk_engine
from fingerprint.store import migrate, open_store, schema
from tests.contracts.alert_store import judged
from tests.support.alerts import ACCOUNT, new_pipeline, stolen_session, votes

EDGES = Path(migrate.__file__).parent


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path) -> str:
    """Of a database that nobody has used."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/desk.sqlite"
    return request.getfixturevalue("postgresql").fresh()


def version_four(url: str, alerts=(), said=()) -> None:
    """A desk as the last program before migrations left it, with these alerts, their votes and what was said of them."""
    engine = desk_engine.create_store_engine(desk_engine.parse_database_url(url))
    with engine.connect().execution_options(writing=desk_engine.SERIALIZED) as connection, connection.begin():
        migrate.upgrade_schema(connection, "0001")
        connection.exec_driver_sql("DROP TABLE alembic_version")
        _put(connection, "alerts", [schema.alert_row(each) for each in alerts])
        _put(connection, "alert_events", [row for each in alerts for row in schema.event_rows(each)])
        _put(connection, "votes", [row for each in alerts for row in map(_fields, votes(each))])
        _put(connection, "dispositions", [_fields(each) for each in said])
    engine.dispose()


def _fields(record) -> dict:
    return {name: getattr(record, name) for name in record.__slots__}


def _put(connection: sql.Connection, table: str, rows: list[dict]) -> None:
    there = {column["name"] for column in sql.inspect(connection).get_columns(table)}
    known = schema.metadata.tables[table]
    for row in rows:
        connection.execute(sql.insert(known).values(**{name: row[name] for name in row.keys() & there}))


def version_of(file) -> str:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()[0]


def test_a_desk_of_version_4_is_brought_up_to_date_and_keeps_all(url):
    alert, pipeline = stolen_session(), new_pipeline()
    said = [
        judged(pipeline, "benign", events=1),
        judged(alert, "benign", 1),
        judged(alert, "true_positive", 2),
    ]
    version_four(url, [alert, pipeline], said)
    desk = open_store(url, create=False)
    assert desk.alerts.by_urgency() == [alert, pipeline]
    assert desk.cases.dispositions() == said
    assert desk.cases.current_decisions() == {alert.alert_id: "true_positive"}
    assert len(desk.votes.read()) == 12
    closed, grown = (desk.queue.row(each.alert_id) for each in (alert, pipeline))
    assert (closed.open, closed.decision, closed.version) == (False, "true_positive", 1)
    assert (grown.open, grown.decision, grown.grown) == (True, "benign", 2)
    assert (closed.events, closed.urgency, closed.accounts) == (9, 91, (ACCOUNT,))
    assert closed.services == ("cloudtrail", "ec2", "iam", "secretsmanager", "sts")
    assert set(closed.tactics) == set(alert.tactics)
    assert [row.alert_id for row in desk.queue.page(AlertFilter(service="ecs")).rows] == [pipeline.alert_id]
    assert [row.alert_id for row in desk.queue.similar(alert.alert_id)] == [pipeline.alert_id]
    desk.close()


def test_what_was_derived_by_the_step_is_what_a_save_derives(url, tmp_path):
    alerts = [stolen_session(), new_pipeline()]
    version_four(url, alerts)
    old, new = open_store(url), open_store(f"sqlite:///{tmp_path}/new.sqlite")
    new.alerts.save(alerts)
    for table in ("alerts", "alert_values", "alert_surprises"):
        assert old.dump_tables()[table] == new.dump_tables()[table]
    once = old.dump_tables()
    old.alerts.save(alerts)
    assert {name: old.dump_tables()[name] for name in once if not name.startswith("change")} == {
        name: rows for name, rows in once.items() if not name.startswith("change")
    }
    old.close()


# An index that only the other database has.
ELSEWHERE = {"sqlite": "votes_by_principal", "postgresql": "votes_of_principal"}


def test_the_steps_make_the_tables_that_the_programs_expect(url):
    for file in EDGES.glob("*.py"):
        if "desk_tables import" in file.read_text():
            importlib.import_module(f"fingerprint.adapters.{file.stem}")  # some keep tables of their own
    open_store(url).close()
    engine = desk_engine.create_store_engine(desk_engine.parse_database_url(url))
    with engine.connect() as connection:
        theirs = ELSEWHERE[connection.dialect.name]
        look = {"include_object": lambda _, name, *__: name != theirs}
        assert compare_metadata(MigrationContext.configure(connection, opts=look), schema.metadata) == []
    engine.dispose()


def test_the_steps_follow_each_other_and_are_numbered(tmp_path):
    from alembic.script import ScriptDirectory

    steps = [
        each.revision
        for each in ScriptDirectory(str(migrate.MIGRATIONS_FOLDER)).walk_revisions("base", "heads")
    ]
    assert steps[::-1] == [f"{number:04d}" for number in range(1, len(steps) + 1)]
    assert migrate.latest_schema_version() == migrate.BASE_VERSION + len(steps)
    open_store(f"sqlite:///{tmp_path}/desk.sqlite").close()
    assert version_of(tmp_path / "desk.sqlite") == str(migrate.latest_schema_version())


# What desks of versions 1 to 3 lacked of version 4.
LACKED = {
    "1": ["DROP TABLE feed_counts", "DROP TABLE feed_progress", "DROP TABLE notices"],
    "2": ["ALTER TABLE alerts DROP COLUMN degraded"],
    "3": ["DROP TABLE dispositions"]
    + [f"ALTER TABLE {table} DROP COLUMN bank_version" for table in ("alert_events", "votes")],
}


@pytest.mark.parametrize("create", [True, False], ids=["to write", "to read"])
@pytest.mark.parametrize("version", LACKED)
def test_a_desk_of_the_first_versions_is_brought_up_to_date_by_whoever_opens_it(tmp_path, version, create):
    file = tmp_path / "desk.sqlite"
    version_four(f"sqlite:///{file}", [stolen_session()])
    with closing(sqlite3.connect(file)) as connection:
        lacks = [each for number, some in LACKED.items() if number >= version for each in some]
        for statement in lacks:
            connection.execute(statement)
        connection.execute("UPDATE meta SET value = ? WHERE name = 'version'", [version])
        connection.commit()
    desk = open_store(f"sqlite:///{file}", create)
    assert desk.alerts.by_urgency() == [stolen_session()]
    assert (desk.feeds.gaps(), desk.cases.dispositions(), len(desk.votes.read())) == ([], [], 9)
    degraded = replace(stolen_session(), degraded=True)
    desk.alerts.save([degraded], [replace(vote, bank_version="2026-02-01-aa") for vote in votes(degraded)])
    assert open_store(f"sqlite:///{file}").alerts.by_urgency() == [degraded]
    assert set(desk.votes.read()["bank_version"]) == {"2026-02-01-aa"}


def test_suppressions_that_rest_on_what_attackers_write_end_with_the_step_that_refuses_them(url):
    engine, now = desk_engine.create_store_engine(desk_engine.parse_database_url(url)), datetime.now(UTC)
    careful = {"principal": "p", "user_agent": "Boto3/1.34"}
    matches = {"short": {"user_agent": "B"}, "alone": {"human": "pentest.team@example.com"}, "good": careful}
    rows = [{"suppression_id": name, "match": match} for name, match in matches.items()]
    same = {
        "version": 1,
        "reason": "why",
        "owner": "maria",
        "created_at": now,
        "expires_at": now + timedelta(days=9),
    }
    with engine.connect().execution_options(writing=desk_engine.SERIALIZED) as connection, connection.begin():
        migrate.upgrade_schema(connection, "0007")
        _put(connection, "suppressions", [row | same for row in rows])
    engine.dispose()
    desk = open_store(url)
    assert [(each.suppression_id, each.forced) for each in desk.suppressions.list_all()] == [("good", "")]
    desk.alerts.save([stolen_session()])


def test_programs_that_start_together_on_an_old_desk_upgrade_it_once(url):
    version_four(url, [stolen_session()])
    with ThreadPoolExecutor(4) as pool:
        desks = list(pool.map(open_store, [url] * 4))
    assert [desk.alerts.by_urgency() for desk in desks] == [[stolen_session()]] * 4
    for desk in desks:
        desk.close()


def test_a_step_that_fails_leaves_the_desk_as_it_was(url):
    """Somebody's own table is in the way of one of the new ones."""
    version_four(url, [stolen_session()])
    engine = desk_engine.create_store_engine(desk_engine.parse_database_url(url))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE audit (theirs TEXT)")
    with pytest.raises(FingerprintError, match="audit"):
        open_store(url)
    with engine.begin() as connection:
        assert "cases" not in sql.inspect(connection).get_table_names()
        connection.exec_driver_sql("DROP TABLE audit")
    assert open_store(url).alerts.by_urgency() == [stolen_session()]
    engine.dispose()


@pytest.mark.parametrize(
    "statement", ["UPDATE audit SET \"by\" = 'nobody'", "DELETE FROM audit", "TRUNCATE audit"]
)
def test_the_audit_can_be_added_to_and_nothing_else(url, statement):
    if url.startswith("sqlite") and statement.startswith("TRUNCATE"):
        return  # SQLite has no such statement
    desk = open_store(url)
    desk.alerts.save([stolen_session()])
    desk.cases.add_note(stolen_session().alert_id, "called her: it was not her", by="maria")
    engine = desk_engine.create_store_engine(desk_engine.parse_database_url(url))
    with pytest.raises(sql.exc.DBAPIError, match="only grows"), engine.begin() as connection:
        connection.exec_driver_sql(statement)
    assert [entry.by for entry in desk.audit.entries()] == ["maria"]
    desk.close()
    engine.dispose()
