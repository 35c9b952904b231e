"""Suppressions and their hits; surprises that many share; of which alerts the raw records were removed.

Who shares what is counted for the alerts that are there.
"""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

from fingerprint.store.prevalence import update_prevalence
from fingerprint.store.schema import FiniteJson, UtcDateTime, required_text, required_time

revision, down_revision = "0003", "0002"


def upgrade() -> None:
    _suppressions()
    _sharing()
    op.create_table("removed_records", required_text("alert_id", primary_key=True), required_time("at"))
    connection = op.get_bind()
    update_prevalence(connection, list(connection.scalars(sql.text("SELECT alert_id FROM alerts"))))


def _suppressions() -> None:
    op.create_table(
        "suppressions",
        required_text("suppression_id", primary_key=True),
        sql.Column("version", sql.Integer, nullable=False),
        sql.Column("match", FiniteJson, nullable=False),
        required_text("reason"),
        required_text("owner"),
        required_time("created_at"),
        required_time("expires_at"),
        sql.Column("ended_at", UtcDateTime),
    )
    op.create_table(
        "suppression_hits",
        required_text("suppression_id", primary_key=True),
        required_text("alert_id", primary_key=True),
        required_time("at"),
        sql.Column("outgrown", sql.Boolean, nullable=False, server_default=sql.false()),
    )
    op.create_index("hits_of_alert", "suppression_hits", ["alert_id"])


def _sharing() -> None:
    op.create_table(
        "shared_surprises",
        required_text("alert_id", primary_key=True),
        required_text("surprise_id", primary_key=True),
        required_text("shown_by"),
        sql.Column("first_at", sql.BigInteger, nullable=False),
        sql.Column("last_at", sql.BigInteger, nullable=False),
        sql.Column("others", sql.Integer, nullable=False, server_default="0"),
        sql.Column("attack", sql.Boolean, nullable=False, server_default=sql.false()),
    )
    op.create_index("surprises_shared", "shared_surprises", ["surprise_id", "last_at"])
