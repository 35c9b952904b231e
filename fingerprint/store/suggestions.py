"""Values of alerts that begin in a certain way, for suggestions while a query is typed.

Example:
    >>> suggest_values(connection, "action", "sto", 10)
    ['StopInstances', 'StopLogging']

Each value is one step down an index, from the last one to the next different one: a value that all alerts have costs what a rare
one does.
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.core.sanitize import MAX_KEY_LENGTH, storable
from fingerprint.store.filter_values import CALL
from fingerprint.store.query_conditions import LAST_CHARACTER, VALUE_FIELDS
from fingerprint.store.schema import alert_values

SUGGESTED_FIELDS = (*VALUE_FIELDS, "person", "network")


def suggest_values(connection: sql.Connection, field: str, begins: str, limit: int) -> list[str]:
    """Return up to `limit` values of a field of the query language, in alphabetical order; small and capital letters are alike.

    Values that an index holds cut short are left out: a query could not ask for them. A field without values in alerts has none.
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
