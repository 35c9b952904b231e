"""Create the tables of the alert store, or migrate those of an earlier version with Alembic.

Example:
    >>> prepare_schema(engine, create=True)

The version of a database, in its table `meta`, is the number of the newest migration that it has run (`migrations/versions`).
Alembic is imported only if there is a migration to run, so opening a current database does not wait for the import.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from threading import Lock

import sqlalchemy as sql

from fingerprint.core.errors import FingerprintError
from fingerprint.store.database import run_write_transaction
from fingerprint.store.schema import REQUIRED_TABLES, meta, replace_into

MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"
_upgrade_lock = Lock()  # Alembic's `op` and `context` are global to the process


def prepare_schema(engine: sql.Engine, create: bool) -> None:
    """Create the tables if there are none and `create` is true; else run the missing migrations.

    Raise FingerprintError for a database of another program or of a newer version.
    """
    with engine.connect() as connection, connection.begin():
        _check_encoding(connection)
        if _is_schema_current(connection, create):
            return
    run_write_transaction(engine, lambda connection: _migrate_if_needed(connection, create))


@cache
def latest_schema_version() -> int:
    """Return the number of the newest migration."""
    return max(
        int(file.name[:4]) for file in (MIGRATIONS_FOLDER / "versions").glob("[0-9][0-9][0-9][0-9]_*.py")
    )


def upgrade_schema(connection: sql.Connection, to: str = "head") -> None:
    """Run the missing migrations in the writing transaction of `connection`."""
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER).replace("%", "%%"))
    with _upgrade_lock:
        command.upgrade(config, to)
    version = latest_schema_version() if to == "head" else int(to)
    connection.execute(replace_into(connection, meta).values(name="version", value=str(version)))


def _check_encoding(connection: sql.Connection) -> None:
    """Raise FingerprintError for an encoding that cannot store every text of a record."""
    if connection.dialect.name != "postgresql":
        return
    if (encoding := connection.scalar(sql.text("SHOW server_encoding"))) != "UTF8":
        raise FingerprintError(
            f"database {connection.engine.url} has the encoding {encoding}: create it with "
            "ENCODING 'UTF8' TEMPLATE template0"
        )


def _migrate_if_needed(connection: sql.Connection, create: bool) -> None:
    """Check again with the writer's lock, because another program may have migrated the database, and migrate it if needed."""
    if not _is_schema_current(connection, create):
        upgrade_schema(connection)


def _is_schema_current(connection: sql.Connection, create: bool) -> bool:
    """Return whether the tables are up to date; False if they must be created or migrated."""
    url, present = connection.engine.url, set(sql.inspect(connection).get_table_names())
    if present.isdisjoint(REQUIRED_TABLES):
        if not create:
            raise FingerprintError(f"database {url} holds no alerts yet: `fingerprint score` creates it")
        return False
    if not present >= REQUIRED_TABLES:
        names = ", ".join(sorted(present & REQUIRED_TABLES))
        raise FingerprintError(f"database {url} holds tables ({names}) that are not those of an alert store")
    version, latest = _schema_version(connection), latest_schema_version()
    if version > latest:
        raise FingerprintError(
            f"database {url} was created by a newer fingerprint (version {version}, known is {latest}): "
            "upgrade, or name another with --database"
        )
    return version == latest


def _schema_version(connection: sql.Connection) -> int:
    text = connection.scalar(sql.select(meta.c.value).where(meta.c.name == "version")) or ""
    if not (text.isascii() and text.isdecimal()):
        raise FingerprintError(
            f"database {connection.engine.url} holds a table meta without a version: it is no alert store"
        )
    return int(text)
