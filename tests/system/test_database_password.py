"""An alert store on a server whose password lies in a file, and is changed while programs run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fingerprint.core.errors import FingerprintError, ServerUnavailable
from fingerprint.store import SqlStore, masked_url, open_store, store_exists
from tests.support.alerts import new_pipeline, stolen_session
from tests.support.services.postgres import GUARDED, Postgres

FIRST, SECOND = "correct-horse", "battery-staple"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "password").write_text(f"{FIRST}\n")
    return tmp_path / "password"


@pytest.fixture
def url(postgresql: Postgres, file: Path) -> Iterator[str]:
    """Of an empty database whose owner needs the password."""
    fresh = postgresql.empty()
    name = fresh.rsplit("/", 1)[1]
    with postgresql.talk() as connection:
        connection.execute(f"CREATE ROLE {GUARDED} LOGIN PASSWORD '{FIRST}'")
        connection.execute(f"ALTER DATABASE {name} OWNER TO {GUARDED}")
    yield f"{fresh.replace('store@', f'{GUARDED}@')}?password_file={file}"
    with postgresql.talk() as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        connection.execute(f"DROP ROLE {GUARDED}")


def change(postgresql: Postgres, password: str) -> None:
    with postgresql.talk() as connection:
        connection.execute(f"ALTER ROLE {GUARDED} PASSWORD '{password}'")


def close_connections(postgresql: Postgres) -> None:
    with postgresql.talk() as connection:
        connection.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{GUARDED}'"  # noqa: S608 - a constant of the tests
        )


def refused(store: SqlStore) -> str:
    with pytest.raises(FingerprintError) as caught:
        store.alerts.by_urgency()
    return str(caught.value)


def test_the_password_is_what_the_file_says(url: str, file: Path) -> None:
    store = open_store(url)
    store.alerts.save([stolen_session()])
    assert store.alerts.by_urgency() == [stolen_session()]
    assert store_exists(url)
    file.write_text("abracadabra")
    with pytest.raises(ServerUnavailable, match="password authentication failed"):
        open_store(url)
    store.close()


def test_a_password_that_is_changed_while_programs_run_is_taken_by_the_next_connection(
    postgresql: Postgres, url: str, file: Path
) -> None:
    store = open_store(url)
    change(postgresql, SECOND)
    store.alerts.save([stolen_session()])  # a connection that stands needs no password
    close_connections(postgresql)
    assert "password authentication failed" in refused(store)
    file.write_text(f"{SECOND}\n")
    store.alerts.save([new_pipeline()])
    assert store.alerts.by_urgency() == [stolen_session(), new_pipeline()]
    store.close()


def test_a_password_is_in_no_error_and_no_name(postgresql: Postgres, url: str, file: Path) -> None:
    store = open_store(url)
    change(postgresql, SECOND)
    close_connections(postgresql)
    for said in (refused(store), masked_url(url), repr(store.session.engine), repr(store.session.engine.url)):
        assert FIRST not in said
        assert "\n" not in said
    store.close()


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "cannot be read: No such file"), (b"\n", "is empty"), (b"\xff", "is not text")],
)
def test_a_file_without_a_password_is_named_and_asked_again(
    url: str, file: Path, content: bytes | None, why: str
) -> None:
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ServerUnavailable, match=why) as caught:
        open_store(url)
    assert str(file) in str(caught.value)
    file.write_text(FIRST)
    open_store(url).close()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite:///alerts.sqlite?password_file=x", "has no password"),
        ("postgresql://user:open-sesame@127.0.0.1:1/db", "holds a password"),
        ("postgresql://user:open/sesame@127.0.0.1:1/db", "holds a password"),
        ("postgresql://user@127.0.0.1:1/db?password=open-sesame", "holds a password"),
        ("postgresql://user:open-sesame@127.0.0.1:1/db?password_file=x", "password_file"),
        ("postgresql://user@127.0.0.1:1/db?password_file=x&password_file=y", "give one password"),
    ],
)
def test_a_password_in_the_url_two_of_them_and_one_where_none_is_wanted_are_refused(
    url: str, why: str
) -> None:
    with pytest.raises(FingerprintError, match=why) as caught:
        open_store(url)
    assert "open-sesame" not in str(caught.value)
