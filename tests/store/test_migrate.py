"""Migrations create the tables that the programs expect, once, and all or nothing."""

from __future__ import annotations

import ast
import math
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import sqlalchemy as sql
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from fingerprint.core.errors import FingerprintError
from fingerprint.store import migrate, open_store, schema
from fingerprint.store.database import create_store_engine, parse_database_url
from tests.support.alerts import stolen_session, votes
from tests.support.migrated_once import migrations

FOREIGN_INDEXES = {  # of the other database
    "sqlite": {"votes_by_principal", "alerts_by_prefix"},
    "postgresql": {"votes_of_principal"},
}


@pytest.fixture(autouse=True)
def _migrations_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what they said to an earlier database (tests/support/fixtures.py)."""
    monkeypatch.setattr(migrate, "upgrade_schema", migrations)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/alerts.sqlite"
    return request.getfixturevalue("postgresql").empty()


@pytest.fixture
def engine(url):
    made = create_store_engine(parse_database_url(url))
    yield made
    made.dispose()


def test_the_migrations_create_the_tables_of_the_schema(url, engine):
    open_store(url).close()
    with engine.connect() as connection:
        foreign = FOREIGN_INDEXES[connection.dialect.name]
        options = {
            "include_object": lambda _, name, *__: name not in foreign and not _is_search_index(name),
            "compare_type": True,
            "compare_server_default": connection.dialect.name != "sqlite",  # the next test compares these
        }
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, schema.metadata) == []


def _is_search_index(name: str | None) -> bool:
    """Full text is the same statements in both: what SQLAlchemy cannot describe."""
    return (name or "").startswith((schema.WORD_INDEX, schema.WORD_VECTOR))


def test_tables_created_by_the_migrations_are_those_that_the_schema_creates(tmp_path):
    """Options that Alembic does not compare: WITHOUT ROWID, AUTOINCREMENT, the order of columns and of an index."""
    open_store(f"sqlite:///{tmp_path}/migrated.sqlite").close()
    direct = create_store_engine(parse_database_url(f"sqlite:///{tmp_path}/direct.sqlite"))
    with direct.begin() as connection:
        schema.metadata.create_all(connection)
    direct.dispose()
    assert _definitions(tmp_path / "migrated.sqlite") == _definitions(tmp_path / "direct.sqlite")


def _definitions(file) -> dict[str, tuple]:
    with closing(sqlite3.connect(file)) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        own = [name for name in names if not name.startswith(("alembic", "sqlite"))]
        return {
            name: (
                connection.execute(f"PRAGMA table_xinfo('{name}')").fetchall(),
                connection.execute("SELECT wr FROM pragma_table_list(?)", [name]).fetchall(),
                sorted(_indexes(connection, name)),
                "AUTOINCREMENT" in _definition(connection, name),
            )
            for name in own
        }


def _indexes(connection: sqlite3.Connection, table: str) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL"
    names = [row[0] for row in connection.execute(query, [table])]
    return [f"{name} {connection.execute(f'PRAGMA index_xinfo({name})').fetchall()}" for name in names]


def _definition(connection: sqlite3.Connection, table: str) -> str:
    return connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [table]).fetchone()[0]


SEARCH_OBJECTS = {  # definitions of what searches the words of alerts, which SQLAlchemy does not compare
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE name LIKE 'alert\\_words%' ESCAPE '\\' ORDER BY name",
    "postgresql": """
        SELECT indexname, indexdef FROM pg_indexes WHERE indexname = 'alert_words'
        UNION ALL SELECT stxname, pg_get_statisticsobjdef(oid) FROM pg_statistic_ext
        UNION ALL SELECT column_name, generation_expression FROM information_schema.columns WHERE column_name = 'word_vector'
        ORDER BY 1""",
}


def test_migrations_create_the_full_text_search_of_the_schema(url, engine, request, tmp_path):
    with engine.begin() as connection:
        migrations(connection)
        migrated = _search_objects(connection)
    is_sqlite = engine.dialect.name == "sqlite"
    empty = (
        f"sqlite:///{tmp_path}/direct.sqlite" if is_sqlite else request.getfixturevalue("postgresql").empty()
    )
    direct = create_store_engine(parse_database_url(empty))
    with direct.begin() as connection:
        schema.metadata.create_all(connection)
        assert migrated == _search_objects(connection)
    direct.dispose()
    assert len(migrated) >= 3


def _search_objects(connection: sql.Connection) -> list[tuple[str, str]]:
    return [tuple(row) for row in connection.execute(sql.text(SEARCH_OBJECTS[connection.dialect.name]))]


def test_a_migration_imports_nothing_that_changes_with_the_schema():
    """Databases have run it: it stays as it was, whatever becomes of the tables."""
    for file in (migrate.MIGRATIONS_FOLDER / "versions").glob("[0-9]*.py"):
        nodes = [*ast.walk(ast.parse(file.read_text()))]
        imported = {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
        imported |= {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
        assert imported <= {"__future__", "alembic", "sqlalchemy"}, file.name


def test_migrations_follow_each_other_and_are_numbered(tmp_path):
    scripts = ScriptDirectory(str(migrate.MIGRATIONS_FOLDER))
    numbers = [script.revision for script in scripts.walk_revisions("base", "heads")]
    assert numbers[::-1] == [f"{number:04d}" for number in range(1, len(numbers) + 1)]
    assert migrate.latest_schema_version() == len(numbers)
    open_store(f"sqlite:///{tmp_path}/alerts.sqlite").close()
    with closing(sqlite3.connect(tmp_path / "alerts.sqlite")) as connection:
        version = connection.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()[0]
    assert version == str(migrate.latest_schema_version())


def test_programs_that_start_together_on_an_empty_database_migrate_it_once(url):
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(open_store, [url] * 4))
    stores[0].alerts.save([stolen_session()])
    assert [store.alerts.by_urgency() for store in stores] == [[stolen_session()]] * 4
    for store in stores:
        store.close()


def test_votes_of_before_have_no_action_and_no_reach_and_stay(url, engine):
    """Migrations 2 and 3: a vote says what its event called, and how far it reaches."""
    vote = votes(stolen_session())[0]
    with engine.begin() as connection:
        migrations(connection, "0001")
        row = {name: getattr(vote, name) for name in schema.VOTE_COLUMNS if name not in ("action", "reach")}
        connection.execute(sql.insert(schema.votes), row)
    store = open_store(url)
    [stored] = store.votes.read().to_dict("records")
    assert (stored["event_id"], stored["action"]) == (vote.event_id, "")
    assert math.isnan(stored["reach"])
    store.close()


def test_a_migration_that_fails_leaves_the_database_as_it_was(url, engine):
    """A table of another program has the name of one of ours."""
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE audit (theirs TEXT)")
    with pytest.raises(FingerprintError, match="audit"):
        open_store(url)
    with engine.begin() as connection:
        assert "cases" not in sql.inspect(connection).get_table_names()
        connection.exec_driver_sql("DROP TABLE audit")
    store = open_store(url)
    store.alerts.save([stolen_session()])
    assert store.alerts.by_urgency() == [stolen_session()]
    store.close()


@pytest.mark.parametrize(
    "statement", ["UPDATE audit SET \"by\" = 'mallory'", "DELETE FROM audit", "TRUNCATE audit"]
)
def test_the_audit_can_be_added_to_and_nothing_else(url, engine, statement):
    if url.startswith("sqlite") and statement.startswith("TRUNCATE"):
        return  # SQLite has no such statement
    store = open_store(url)
    store.alerts.save([stolen_session()])
    store.cases.add_note(stolen_session().alert_id, "called her: it was not her", by="maria")
    with pytest.raises(sql.exc.DBAPIError, match="only grows"), engine.begin() as connection:
        connection.exec_driver_sql(statement)
    assert [entry.by for entry in store.audit.entries()] == ["maria"]
    store.close()
