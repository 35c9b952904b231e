"""Statements that are compiled once for all SQLite databases of a process, not once for each.

SQLAlchemy keeps compiled statements by engine, and every test of the store opens an engine of its own: a tenth of the fast
tests' CPU was compiling the same statements again. The statements of one process depend on nothing that differs between its
SQLite files.
"""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache

STATEMENTS = 5_000  # more than the store has


def share_compiled_statements(patch: pytest.MonkeyPatch) -> None:
    """Let all SQLite engines of the process use one cache: their dialects count as equal, which is what its keys hold."""
    shared: LRUCache[Any, Any] = LRUCache(STATEMENTS)
    create = Engine.__init__

    def sharing(engine: Engine, *arguments: Any, **options: Any) -> None:
        create(engine, *arguments, **options)
        if isinstance(engine.dialect, SQLiteDialect_pysqlite):
            engine._compiled_cache = shared

    patch.setattr(Engine, "__init__", sharing)
    patch.setattr(SQLiteDialect_pysqlite, "__eq__", lambda one, other: type(one) is type(other))
    patch.setattr(SQLiteDialect_pysqlite, "__hash__", lambda one: hash(type(one)))
