"""Cursors of pages: each row once, in any order, whatever a cursor is made into."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sql

from fingerprint.core.errors import FingerprintError
from fingerprint.store.page_cursor import after, decode_cursor, encode_cursor, order_by
from fingerprint.store.schema import UtcDateTime

ROWS = sql.Table(
    "rows",
    sql.MetaData(),
    sql.Column("number", sql.Integer),
    sql.Column("at", UtcDateTime()),
    sql.Column("name", sql.Text),
)
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
VALUES = [
    {"number": number % 3, "at": BEGIN + timedelta(hours=number % 2), "name": f"row {number}"}
    for number in range(12)
]
ORDER = ((ROWS.c.number, True), (ROWS.c.at, False), (ROWS.c.name, True))


@pytest.fixture(scope="module")
def connection() -> Any:
    with sql.create_engine("sqlite://").connect() as opened:
        ROWS.create(opened)
        opened.execute(sql.insert(ROWS), VALUES)
        yield opened


@pytest.mark.parametrize("size", [1, 3, 5, 12])
def test_pages_have_each_row_once_and_in_order(connection: Any, size: int) -> None:
    everything, shown, cursor = sql.select(ROWS).order_by(*order_by(ORDER)), [], None
    while True:
        query = everything.limit(size)
        if cursor:
            query = query.where(after(ORDER, decode_cursor(cursor, ORDER, "asked")))
        page = [tuple(row) for row in connection.execute(query)]
        if not page:
            break
        shown += page
        cursor = encode_cursor(page[-1], "asked")
    assert shown == [tuple(row) for row in connection.execute(everything)]
    assert [row[0] for row in shown] == [2] * 4 + [1] * 4 + [0] * 4


CURSOR = encode_cursor([1, BEGIN, "row 1"], "asked")
BAD = {
    "of another question": encode_cursor([1, BEGIN, "row 1"], "another"),
    "of fewer columns": encode_cursor([1, BEGIN], "asked"),
    "a number too large": encode_cursor([2**31, BEGIN, "row 1"], "asked"),
    "a time that is none": encode_cursor([1, "yesterday", "row 1"], "asked"),
    "a list for a number": encode_cursor([[1], BEGIN, "row 1"], "asked"),
    "cut": CURSOR[:-3],
    "nothing": "",
    "no base64": "\N{SNOWMAN}",
    "deep": encode_cursor([0], "asked")[:11] + "W1tb" * 60_000,
}


@pytest.mark.parametrize("cursor", BAD.values(), ids=BAD)
def test_what_no_page_gave_is_refused_in_a_sentence(cursor: str) -> None:
    assert decode_cursor(CURSOR, ORDER, "asked") == [1, BEGIN, "row 1"]
    with pytest.raises(FingerprintError, match="no page begins there"):
        decode_cursor(cursor, ORDER, "asked")
