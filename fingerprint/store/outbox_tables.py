"""The tables of what is told elsewhere.

deliveries           one thing that happened to one alert, for one receiver, and what became of it
delivery_told        what each receiver has heard of each alert last
delivery_receivers   how far each receiver has come in what changed (`changed`)
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.store.schema import UtcDateTime, metadata, required_text, required_time

deliveries = sql.Table(
    "deliveries",
    metadata,
    required_text("key", primary_key=True),  # a digest of receiver, alert and what happened
    required_text("receiver"),
    required_text("alert_id"),
    required_text("happened"),
    required_time("created_at"),
    required_time("due_at"),
    sql.Column("tries", sql.Integer, nullable=False),
    required_text("state"),  # waiting, sent, failed
    required_text("reason"),
    sql.Column("done_at", UtcDateTime),
    sql.Column("held_until", UtcDateTime),  # in whose hands it is, and until when
    required_text("held_by", server_default=""),
)
sql.Index("deliveries_due", deliveries.c.receiver, deliveries.c.state, deliveries.c.due_at)
sql.Index("deliveries_newest", deliveries.c.created_at, deliveries.c.key)

last_delivered = sql.Table(
    "delivery_told",
    metadata,
    required_text("receiver", primary_key=True),
    required_text("alert_id", primary_key=True),
    sql.Column("events", sql.Integer, nullable=False),
    sql.Column("decided_at", UtcDateTime),
)

receiver_positions = sql.Table(
    "delivery_receivers",
    metadata,
    required_text("receiver", primary_key=True),
    sql.Column(
        "position", sql.BigInteger, nullable=False
    ),  # the number of the newest change that was planned
)
