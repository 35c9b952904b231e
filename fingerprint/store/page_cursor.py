"""Cursors of pages: the beginning of the next page, as text for a URL.

Example:
    >>> order = ((alerts.c.urgency_shown, True), (alerts.c.alert_id, False))     # with True the largest comes first
    >>> cursor = encode_cursor([82, "3fa94c1be0d27a58"], search=(alert_filter, "urgency"))
    >>> query.where(after(order, decode_cursor(cursor, order, search=(alert_filter, "urgency"))))

Keyset pagination: the next page begins after the last row's values in the columns that order the rows. So rows that are added or
removed between two pages neither repeat other rows nor make the next page skip any. A cursor has a digest of the search, and is
refused for any other search.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import sqlalchemy as sql

from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import storable

# Columns, and whether the largest comes first; the last is an id.
Order = Sequence[tuple[sql.Column[Any], bool]]
DIGEST_BYTES = 8
LARGEST_NUMBER = 2**31  # no column has a number as large as this


def encode_cursor(values: Iterable[Any], search: object) -> str:
    """Return the cursor after a row, given its values in the order's columns and the search (identified by its `repr`)."""
    position = json.dumps([each.isoformat() if isinstance(each, datetime) else each for each in values])
    return base64.urlsafe_b64encode(_digest(search) + position.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, order: Order, search: object) -> list[Any]:
    """Return the values of a cursor, in the types of the columns. Raise FingerprintError for a cursor of another search."""
    try:
        decoded = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if decoded[:DIGEST_BYTES] != _digest(search):
            raise ValueError("of something else")
        values = json.loads(decoded[DIGEST_BYTES:])
        return [_parse_value(column, value) for (column, _), value in zip(order, values, strict=True)]
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise FingerprintError("no page begins there: pass `following` as the page before gave it") from None


def after(order: Order, position: Sequence[Any]) -> sql.ColumnElement[bool]:
    """Return the condition for rows after a position: later in the first column that differs.

    The condition on the first column is redundant; it lets the database use an index.
    """
    (first, largest), value = order[0], position[0]
    begins = first <= value if largest else first >= value
    later = (
        sql.and_(
            *(column == position[index] for index, (column, _) in enumerate(order[:number])),
            column < position[number] if largest else column > position[number],
        )
        for number, (column, largest) in enumerate(order)
    )
    return begins & sql.or_(*later)


def order_by(order: Order) -> list[sql.ColumnElement[Any]]:
    """Return the columns for a query's ORDER BY."""
    return [column.desc() if largest else column.asc() for column, largest in order]


def _parse_value(column: sql.Column[Any], value: Any) -> Any:
    if isinstance(column.type, sql.String):
        return storable(str(value))
    if isinstance(value, str):
        return datetime.fromisoformat(value).astimezone(UTC)
    if not isinstance(value, int) or abs(value) >= LARGEST_NUMBER:
        raise ValueError("no number that a column may have")
    return value


def _digest(search: object) -> bytes:
    return blake2b(repr(search).encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
