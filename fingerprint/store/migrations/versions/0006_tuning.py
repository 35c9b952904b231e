"""What was chosen at the desk to hold events to; who began which session, joined by access key."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

from fingerprint.store.queue_tables import AUTOINCREMENT_TYPE
from fingerprint.store.schema import NanAsNull, required_text, required_time

revision, down_revision = "0006", "0005"


def upgrade() -> None:
    op.create_table(
        "tunings",
        sql.Column("number", AUTOINCREMENT_TYPE, primary_key=True),
        required_time("at"),
        required_text("by"),
        required_text("why"),
        sql.Column("threshold", NanAsNull),
        sql.Column("quorum", sql.Integer),
        sql.Column("cleared", sql.Boolean, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "hops",
        required_text("issued_key", primary_key=True),
        required_time("at"),
        *(required_text(name) for name in ("event_id", "action", "principal", "human")),
        *(required_text(name) for name in ("access_key", "source_address", "region")),
    )
    op.create_index("ix_hops_at", "hops", ["at"])
    op.add_column("alert_events", required_text("access_key", server_default=""))
