"""SQLite's plans of the queries that some work runs: a test sees there which tables are read row by row.

Example:
    >>> plans(store, lambda: store.alerts.get("77b0e6d1920c4f3e"))
    ['SEARCH alerts USING INDEX sqlite_autoindex_alerts_1 (alert_id=?)', ...]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sql

from fingerprint.store import SqlStore


def queries(store: SqlStore, work: Callable[[], object]) -> list[tuple[str, Any]]:
    """Return the queries that the work runs, with their parameters, in their order."""
    found: list[tuple[str, Any]] = []

    def listen(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        if statement.startswith(("SELECT", "WITH", "DELETE", "UPDATE")):
            found.append((statement, parameters))

    sql.event.listen(store.session.engine, "before_cursor_execute", listen)
    try:
        work()
    finally:
        sql.event.remove(store.session.engine, "before_cursor_execute", listen)
    return found


def plans(store: SqlStore, work: Callable[[], object]) -> list[str]:
    """Return the steps of the plans of all queries that the work runs."""
    found = queries(store, work)
    with store.session.engine.connect() as connection:
        return [
            row[-1]
            for statement, parameters in found
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
        ]
