"""A desk of version 4, the last before there were migrations: made, or completed where it is of versions 1 to 3.

Version 1 lacks tables of feeds, 2 whether an alert is degraded, 3 dispositions and which bank measured.
"""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

from fingerprint.store.schema import FiniteJson, NanAsNull, UtcDateTime, required_text, required_time

revision, down_revision = "0001", None

metadata = sql.MetaData()
sql.Table("meta", metadata, required_text("name", primary_key=True), required_text("value"))

alerts = sql.Table(
    "alerts",
    metadata,
    required_text("alert_id", primary_key=True),
    required_text("principal"),
    required_text("human"),
    required_time("window_start"),
    required_time("first_event_time"),
    required_time("last_event_time"),
    sql.Column("urgency", sql.Integer, nullable=False),
    required_text("title"),
    required_text("level"),
    required_text("bank_version"),
    sql.Column("drivers", FiniteJson, nullable=False),
    sql.Column("curve", FiniteJson(none_as_null=True)),
    sql.Column("tactics", FiniteJson, nullable=False),
    sql.Column("next_steps", FiniteJson, nullable=False),
    sql.Column("degraded", sql.Boolean, nullable=False, server_default=sql.false()),
)
sql.Index("alerts_in_order", alerts.c.urgency.desc(), alerts.c.first_event_time, alerts.c.alert_id)
sql.Index("ix_alerts_principal", alerts.c.principal, postgresql_using="hash")

sql.Table(
    "alert_events",
    metadata,
    required_text("alert_id", primary_key=True),
    required_text("event_id", primary_key=True),
    required_time("event_time"),
    required_text("entity"),
    required_text("service"),
    required_text("action"),
    required_text("region"),
    required_text("source_address"),
    required_text("user_agent"),
    required_text("error_code"),
    required_text("session"),
    sql.Column("scores", FiniteJson, nullable=False),
    required_text("raw"),
    required_text("bank_version", server_default=""),
)

votes = sql.Table(
    "votes",
    metadata,
    required_text("event_id", primary_key=True),
    required_text("detector", primary_key=True),
    required_time("event_time", index=True),
    required_text("principal"),
    required_text("entity"),
    sql.Column("z", NanAsNull, nullable=False),
    sql.Column("threshold", NanAsNull, nullable=False),
    sql.Column("vote", sql.Boolean, nullable=False),
    required_text("level"),
    required_text("bank_version", server_default=""),
)
sql.Index("votes_of_principal", votes.c.principal, votes.c.event_time).ddl_if(dialect="sqlite")
sql.Index("votes_by_principal", votes.c.principal, postgresql_using="hash").ddl_if(dialect="postgresql")

sql.Table(
    "dispositions",
    metadata,
    required_text("alert_id", primary_key=True),
    required_time("at", primary_key=True),
    required_text("decision"),
    required_text("by"),
    required_text("why"),
    sql.Column("events", sql.Integer, nullable=False),
    required_text("duplicate_of"),
)

sql.Table(
    "feed_counts",
    metadata,
    required_text("kind", primary_key=True),
    required_text("feed", primary_key=True),
    sql.Column("at", sql.BigInteger, primary_key=True, index=True, autoincrement=False),
    required_text("partition", primary_key=True),
    sql.Column("events", sql.BigInteger, nullable=False),
)

sql.Table(
    "feed_progress",
    metadata,
    required_text("partition", primary_key=True),
    sql.Column("closed", sql.BigInteger, nullable=False),
)

sql.Table(
    "notices",
    metadata,
    required_text("notice_id", primary_key=True),
    required_text("kind"),
    required_text("feed"),
    required_time("since", index=True),
    required_time("seen_at"),
    sql.Column("expected", NanAsNull, nullable=False),
    sql.Column("hourly", NanAsNull, nullable=False),
    sql.Column("urgency", sql.Integer, nullable=False),
    required_text("title"),
    sql.Column("ended_at", UtcDateTime, index=True),
    required_text("ending"),
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
