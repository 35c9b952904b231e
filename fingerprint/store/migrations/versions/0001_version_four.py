"""A desk of version 4, the last before there were migrations: made, or completed where it is of versions 1 to 3.

Version 1 lacks tables of feeds, 2 whether an alert is degraded, 3 dispositions and which bank measured.
"""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

from fingerprint.store.schema import Json, Real, Utc, text, when

revision, down_revision = "0001", None

metadata = sql.MetaData()
sql.Table("meta", metadata, text("name", primary_key=True), text("value"))

alerts = sql.Table(
    "alerts",
    metadata,
    text("alert_id", primary_key=True),
    text("principal"),
    text("human"),
    when("window_start"),
    when("first_event_time"),
    when("last_event_time"),
    sql.Column("urgency", sql.Integer, nullable=False),
    text("title"),
    text("level"),
    text("bank_version"),
    sql.Column("drivers", Json, nullable=False),
    sql.Column("curve", Json(none_as_null=True)),
    sql.Column("tactics", Json, nullable=False),
    sql.Column("next_steps", Json, nullable=False),
    sql.Column("degraded", sql.Boolean, nullable=False, server_default=sql.false()),
)
sql.Index("alerts_in_order", alerts.c.urgency.desc(), alerts.c.first_event_time, alerts.c.alert_id)
sql.Index("ix_alerts_principal", alerts.c.principal, postgresql_using="hash")

sql.Table(
    "alert_events",
    metadata,
    text("alert_id", primary_key=True),
    text("event_id", primary_key=True),
    when("event_time"),
    text("entity"),
    text("service"),
    text("action"),
    text("region"),
    text("source_address"),
    text("user_agent"),
    text("error_code"),
    text("session"),
    sql.Column("autoencoder_z", Real),
    sql.Column("spectral_z", Real),
    text("raw"),
    text("bank_version", server_default=""),
)

votes = sql.Table(
    "votes",
    metadata,
    text("event_id", primary_key=True),
    text("detector", primary_key=True),
    when("event_time", index=True),
    text("principal"),
    text("entity"),
    sql.Column("z", Real, nullable=False),
    sql.Column("threshold", Real, nullable=False),
    sql.Column("vote", sql.Boolean, nullable=False),
    text("level"),
    text("bank_version", server_default=""),
)
sql.Index("votes_of_principal", votes.c.principal, votes.c.event_time).ddl_if(dialect="sqlite")
sql.Index("votes_by_principal", votes.c.principal, postgresql_using="hash").ddl_if(dialect="postgresql")

sql.Table(
    "dispositions",
    metadata,
    text("alert_id", primary_key=True),
    when("at", primary_key=True),
    text("decision"),
    text("by"),
    text("why"),
    sql.Column("events", sql.Integer, nullable=False),
    text("duplicate_of"),
)

sql.Table(
    "feed_counts",
    metadata,
    text("kind", primary_key=True),
    text("feed", primary_key=True),
    sql.Column("at", sql.BigInteger, primary_key=True, index=True, autoincrement=False),
    text("partition", primary_key=True),
    sql.Column("events", sql.BigInteger, nullable=False),
)

sql.Table(
    "feed_progress",
    metadata,
    text("partition", primary_key=True),
    sql.Column("closed", sql.BigInteger, nullable=False),
)

sql.Table(
    "notices",
    metadata,
    text("notice_id", primary_key=True),
    text("kind"),
    text("feed"),
    when("since", index=True),
    when("seen_at"),
    sql.Column("expected", Real, nullable=False),
    sql.Column("hourly", Real, nullable=False),
    sql.Column("urgency", sql.Integer, nullable=False),
    text("title"),
    sql.Column("ended_at", Utc, index=True),
    text("ending"),
)

ADDED = (  # to tables that an earlier version had already
    ("alerts", "degraded", sql.Boolean, sql.false()),
    ("alert_events", "bank_version", sql.Text, ""),
    ("votes", "bank_version", sql.Text, ""),
)


def upgrade() -> None:
    connection = op.get_bind()
    metadata.create_all(connection)  # those that are not there
    for table, name, kind, default in ADDED:
        if name not in {column["name"] for column in sql.inspect(connection).get_columns(table)}:
            op.add_column(table, sql.Column(name, kind, nullable=False, server_default=default))
