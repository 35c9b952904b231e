"""Statements that are compiled once for all databases of a kind in a process, not once for each.

SQLAlchemy keeps compiled statements by engine, and every test of the store opens an engine of its own: a tenth of the fast
tests' CPU was compiling the same statements again. The statements of one process depend on nothing that differs between its
SQLite files, or between the databases of its PostgreSQL server.
"""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache

STATEMENTS = 5_000  # more than the store has


def share_compiled_statements(patch: pytest.MonkeyPatch) -> None:
    """Let all engines of a kind in the process use one cache: their dialects count as equal, which is what its keys hold."""
    shared: dict[type, LRUCache[Any, Any]] = {
        kind: LRUCache(STATEMENTS) for kind in (SQLiteDialect_pysqlite, PGDialect_psycopg)
    }
    create = Engine.__init__

    def sharing(engine: Engine, *arguments: Any, **options: Any) -> None:
        create(engine, *arguments, **options)
        if (cache := shared.get(type(engine.dialect))) is not None:
            engine._compiled_cache = cache

    patch.setattr(Engine, "__init__", sharing)
    for kind in shared:
        patch.setattr(kind, "__eq__", lambda one, other: type(one) is type(other))
        patch.setattr(kind, "__hash__", lambda one: hash(type(one)))
