"""Which alert changed last as the how-manyeth: a counter, and a row for each alert that ever changed.

`changed` has one row an alert, however often it changed, so it never outgrows the queue.
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.store.schema import metadata

change_counter = sql.Table(  # one row
    "change_counter",
    metadata,
    sql.Column("only", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("number", sql.BigInteger, nullable=False),
)

alert_changes = sql.Table(
    "changed",
    metadata,
    sql.Column("alert_id", sql.Text, primary_key=True, nullable=False),
    sql.Column("number", sql.BigInteger, nullable=False, index=True),
)
