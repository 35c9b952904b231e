"""What is told elsewhere: deliveries, what each receiver has heard, and how far it has come.

Alerts that never changed since changes are counted are given the number 0, before all others, so that a receiver that is to hear
of everything finds them too.
"""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

from fingerprint.store.schema import UtcDateTime, required_text, required_time

revision, down_revision = "0005", "0004"


def upgrade() -> None:
    _deliveries()
    op.create_table(
        "delivery_told",
        required_text("receiver", primary_key=True),
        required_text("alert_id", primary_key=True),
        sql.Column("events", sql.Integer, nullable=False),
        sql.Column("decided_at", UtcDateTime),
    )
    op.create_table(
        "delivery_receivers",
        required_text("receiver", primary_key=True),
        sql.Column("position", sql.BigInteger, nullable=False),
    )
    op.execute(
        "INSERT INTO changed (alert_id, number) SELECT alert_id, 0 FROM alerts "
        "WHERE NOT EXISTS (SELECT 1 FROM changed WHERE changed.alert_id = alerts.alert_id)"
    )


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        required_text("key", primary_key=True),
        required_text("receiver"),
        required_text("alert_id"),
        required_text("happened"),
        required_time("created_at"),
        required_time("due_at"),
        sql.Column("tries", sql.Integer, nullable=False),
        required_text("state"),
        required_text("reason"),
        sql.Column("done_at", UtcDateTime),
        sql.Column("held_until", UtcDateTime),
        required_text("held_by", server_default=""),
    )
    op.create_index("deliveries_due", "deliveries", ["receiver", "state", "due_at"])
    op.create_index("deliveries_newest", "deliveries", ["created_at", "key"])
