"""What a database holds, to see whether something changed."""

from __future__ import annotations

import json

import sqlalchemy as sql

from fingerprint.store import SqlStore
from fingerprint.store.schema import STORED_AT, metadata


def dump_tables(store: SqlStore) -> dict[str, str]:
    """Return every row of every table as text, in order, without when it was stored."""

    def dump(connection: sql.Connection) -> dict[str, str]:
        return {table.name: _dump_table(connection, table) for table in metadata.sorted_tables}

    return store.session.read(dump)


def _dump_table(connection: sql.Connection, table: sql.Table) -> str:
    columns = (column for column in table.c if column.name != STORED_AT)
    rows = connection.execute(sql.select(*columns).order_by(*table.primary_key)).all()
    return "\n".join(json.dumps(list(row), default=str) for row in rows)
