"""A desk brought up to date, step by step: the steps are in migrations/versions, Alembic walks them.

Example:
    >>> with engine.connect().execution_options(writing="turn") as connection, connection.begin():
    ...     upgrade(connection)
    >>> newest()                                      # of the steps that this program knows
    5

A desk's version is 3 and the number of its last step: step 0001 is the tables of version 4, which came before there were steps.
Alembic is asked only where there is a step to take, so whoever opens a desk that is up to date does not wait for its import.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from threading import Lock

import sqlalchemy as sql

from fingerprint.store.schema import insert_into, meta

MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"
BASE_VERSION = 3  # versions that were never a step of their own
_upgrade_lock = Lock()  # Alembic's `op` and `context` are the process's


@cache
def latest_schema_version() -> int:
    """The version of a desk that has taken all steps."""
    return BASE_VERSION + max(
        int(file.name[:4]) for file in (MIGRATIONS_FOLDER / "versions").glob("[0-9][0-9][0-9][0-9]_*.py")
    )


def upgrade_schema(connection: sql.Connection, to: str = "head") -> None:
    """Take the steps that this desk lacks, in the transaction of `connection`, a writer's."""
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER).replace("%", "%%"))
    with _upgrade_lock:
        command.upgrade(config, to)
    version = latest_schema_version() if to == "head" else BASE_VERSION + int(to)
    said = insert_into(connection, meta).values(name="version", value=str(version))
    connection.execute(
        said.on_conflict_do_update(index_elements=["name"], set_={"value": said.excluded.value})
    )
