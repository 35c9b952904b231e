"""What changed in the queue since somebody looked: every transaction that changes alerts gives them the next number.

Example:
    >>> with engine.begin() as connection:
    ...     mark(connection, ["397edb7b6806"])           # the last statement of a transaction that changed it
    >>> with engine.connect() as connection:
    ...     since(connection, 41)
    [Changed(number=42, alert_id='397edb7b6806')]

Numbers become visible in their order. Whoever counts on holds the counter's row until they commit (on SQLite there is one
writer anyway), so nobody who has seen number 42 can later find a 41 that they missed: what a sequence cannot promise. That is
why marking comes last: others who commit wait for what follows it.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sql

from fingerprint.core.case import AlertChange
from fingerprint.core.sanitize import storable
from fingerprint.store.change_feed_tables import alert_changes, change_counter
from fingerprint.store.schema import insert_into

CHUNK = 10_000  # rows of one executemany


def mark_changed(connection: sql.Connection, alert_ids: Collection[str]) -> None:
    """These alerts have changed, by this transaction. Nothing follows it in the transaction but the commit."""
    rows = [{"alert_id": each} for each in sorted({storable(each) for each in alert_ids})]
    if not rows:
        return
    number = _next_number(connection)
    statement = insert_into(connection, alert_changes)
    statement = statement.on_conflict_do_update(
        index_elements=["alert_id"], set_={"number": statement.excluded.number}
    )
    for start in range(0, len(rows), CHUNK):
        part = [row | {"number": number} for row in rows[start : start + CHUNK]]
        connection.execute(statement, part)


def latest_change_number(connection: sql.Connection) -> int:
    """The number of the newest change; 0 before the first."""
    return connection.scalar(sql.select(change_counter.c.number)) or 0


def changes_after(connection: sql.Connection, number: int, limit: int = 500) -> list[AlertChange]:
    """Alerts that changed after a number, each with that of its newest change, the oldest first: about `limit`, and never a
    part of one transaction's, so that the last number says from where to ask again."""
    table = alert_changes.c
    later = sql.select(table.number, table.alert_id).where(table.number > number)
    in_order = later.order_by(table.number, table.alert_id)
    last = connection.scalar(in_order.with_only_columns(table.number).offset(limit - 1).limit(1))
    query = in_order if last is None else in_order.where(table.number <= last)
    return [AlertChange(*row) for row in connection.execute(query)]


def delete_changes(connection: sql.Connection, alert_ids: Collection[str]) -> None:
    """Of alerts that are no longer on the desk."""
    connection.execute(
        sql.delete(alert_changes).where(alert_changes.c.alert_id.in_([storable(each) for each in alert_ids]))
    )


def _next_number(connection: sql.Connection) -> int:
    statement = insert_into(connection, change_counter).values(only=1, number=1)
    counted = statement.on_conflict_do_update(
        index_elements=["only"], set_={"number": change_counter.c.number + 1}
    )
    return int(connection.execute(counted.returning(change_counter.c.number)).scalar_one())
