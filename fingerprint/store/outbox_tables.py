"""The tables of what is told elsewhere.

deliveries           one thing that happened to one alert, for one receiver, and what became of it
delivery_told        what each receiver has heard of each alert last
delivery_receivers   how far each receiver has come in what changed (`changed`)
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.store.schema import Utc, metadata, text, when

deliveries = sql.Table(
    "deliveries",
    metadata,
    text("key", primary_key=True),  # a digest of receiver, alert and what happened
    text("receiver"),
    text("alert_id"),
    text("happened"),
    when("created_at"),
    when("due_at"),
    sql.Column("tries", sql.Integer, nullable=False),
    text("state"),  # waiting, sent, failed
    text("reason"),
    sql.Column("done_at", Utc),
    sql.Column("held_until", Utc),  # in whose hands it is, and until when
    text("held_by", server_default=""),
)
sql.Index("deliveries_due", deliveries.c.receiver, deliveries.c.state, deliveries.c.due_at)
sql.Index("deliveries_newest", deliveries.c.created_at, deliveries.c.key)

told = sql.Table(
    "delivery_told",
    metadata,
    text("receiver", primary_key=True),
    text("alert_id", primary_key=True),
    sql.Column("events", sql.Integer, nullable=False),
    sql.Column("decided_at", Utc),
)

receivers = sql.Table(
    "delivery_receivers",
    metadata,
    text("receiver", primary_key=True),
    sql.Column(
        "position", sql.BigInteger, nullable=False
    ),  # the number of the newest change that was planned
)
