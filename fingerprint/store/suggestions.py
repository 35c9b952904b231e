"""Suggestions while a person types a query: values of alerts with a given beginning.

Example:
    >>> suggest_values(connection, "action", "sto", 10)
    ['StopInstances', 'StopLogging']

Each value takes one step in an index, from the last value to the next different one, so a value that all alerts have costs as
much as a rare one.
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.core.sanitize import MAX_KEY_LENGTH, storable
from fingerprint.store.filter_values import CALL
from fingerprint.store.query_conditions import LAST_CHARACTER, VALUE_FIELDS
from fingerprint.store.schema import alert_values

SUGGESTED_FIELDS = (*VALUE_FIELDS, "person", "network")


def suggest_values(connection: sql.Connection, field: str, begins: str, limit: int) -> list[str]:
    """Return up to `limit` values of a query field in alphabetical order; case does not matter.

    Values that are stored cut are left out, because a query could not ask for them. The result is empty for a field without
    stored values.
    """
    if field not in SUGGESTED_FIELDS:
        return []
    kind = CALL if field == "action" and ":" in begins else "network_owner" if field == "network" else field
    table, low = alert_values.c, alert_values.c.lower_value
    lowest = sql.func.lower(sql.literal(storable(begins), sql.Text))
    within = sql.select(table.value, low.label("low")).where(
        table.kind == kind, low < lowest.concat(LAST_CHARACTER)
    )
    # One lower bound a query: of two, SQLite may take the one that makes it read all rows of a common value.
    first = within.where(low >= lowest).order_by(low).limit(1)
    following = within.where(low > sql.bindparam("last", type_=sql.Text)).order_by(low).limit(1)
    found: list[str] = []
    row = connection.execute(first).first()
    for _ in range(2 * limit):  # some are left out
        if row is None or len(found) == limit:
            break
        if len(row.value) < MAX_KEY_LENGTH:
            found.append(row.value)
        row = connection.execute(following, {"last": row.low}).first()
    return found
