"""The tables of what lies between an alert and whoever reads it.

suppressions        what is hidden, why, by whom and until when
suppression_hits    which alerts each of them hides or has hidden
shared_surprises    surprises that may come to many at once, and how many others show them; derived
removed_records     of which alerts the raw records were removed, and when
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.store.schema import FiniteJson, UtcDateTime, metadata, required_text, required_time

suppressions = sql.Table(
    "suppressions",
    metadata,
    required_text("suppression_id", primary_key=True),
    sql.Column("version", sql.Integer, nullable=False),
    sql.Column("match", FiniteJson, nullable=False),
    required_text("reason"),
    required_text("owner"),
    required_time("created_at"),
    required_time("expires_at"),
    sql.Column("ended_at", UtcDateTime),
    required_text("forced", server_default=""),  # why it hides attacks, too; empty: it does not
)

suppression_hits = sql.Table(
    "suppression_hits",
    metadata,
    required_text("suppression_id", primary_key=True),
    required_text("alert_id", primary_key=True),
    required_time("at"),
    sql.Column(
        "outgrown", sql.Boolean, nullable=False, server_default=sql.false()
    ),  # an event came that differs
)
sql.Index("hits_of_alert", suppression_hits.c.alert_id)

shared_surprises = sql.Table(  # times are seconds since 1970, so that both databases count with them alike
    "shared_surprises",
    metadata,
    required_text("alert_id", primary_key=True),
    required_text("surprise_id", primary_key=True),
    required_text("shown_by"),  # a digest of the principal
    sql.Column("first_at", sql.BigInteger, nullable=False),
    sql.Column("last_at", sql.BigInteger, nullable=False),
    sql.Column("others", sql.Integer, nullable=False, server_default="0"),  # principals, up to sharing.MANY
    sql.Column("attack", sql.Boolean, nullable=False, server_default=sql.false()),  # judged a true positive
)
sql.Index("surprises_shared", shared_surprises.c.surprise_id, shared_surprises.c.last_at)

removed_records = sql.Table(
    "removed_records",
    metadata,
    required_text("alert_id", primary_key=True),
    required_time("at"),
)
