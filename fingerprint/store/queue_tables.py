"""The tables of people's work on alerts, and what the queue is filtered by. The scorer writes only what is derived from an alert.

cases              an alert that somebody touched: who has it, what was decided, how often it was changed
notes, views       what people wrote, and the filters that they keep
audit              who did what, and when; only ever added to
alert_values       an alert's services, accounts and tactics, a row each; derived
alert_surprises    its drivers, a row each, to find alerts that show the same; derived
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.store.schema import Json, Real, Utc, metadata, text, when

NUMBER = sql.BigInteger().with_variant(sql.Integer, "sqlite")  # SQLite counts up only what is INTEGER

audit = sql.Table(
    "audit",
    metadata,
    sql.Column("number", NUMBER, primary_key=True),
    when("at"),
    text("by"),
    text("action"),
    text("target"),
    sql.Column("detail", Json, nullable=False),
    sqlite_autoincrement=True,
)
sql.Index("audit_of_target", audit.c.target, audit.c.number)

cases = sql.Table(
    "cases",
    metadata,
    text("alert_id", primary_key=True),
    sql.Column("version", sql.Integer, nullable=False),
    text("assignee", server_default=""),
    sql.Column("decision", sql.Text),  # null: nobody decided, or it was reopened
    sql.Column(
        "decided_events", sql.Integer, nullable=False, server_default="0"
    ),  # the decision is over so many
    sql.Column("decided_at", Utc),  # of the newest decision or reopening
    text("duplicate_of", server_default=""),
    when("at"),  # of the newest change, and by whom
    text("by"),
    sqlite_with_rowid=False,  # every row of a queue looks here: one step down the tree instead of two
)
sql.Index("cases_of_assignee", cases.c.assignee)

notes = sql.Table(
    "notes",
    metadata,
    text("note_id", primary_key=True),
    text("alert_id"),
    when("at"),
    text("by"),
    text("text"),
)
sql.Index("notes_of_alert", notes.c.alert_id, notes.c.at)

views = sql.Table(
    "views",
    metadata,
    text("owner", primary_key=True),
    text("name", primary_key=True),
    text("query"),
)

alert_values = sql.Table(
    "alert_values",
    metadata,
    text("alert_id", primary_key=True),
    text("kind", primary_key=True),  # service, account, tactic
    text("value", primary_key=True),
    sqlite_with_rowid=False,
)
sql.Index("alerts_of_value", alert_values.c.kind, alert_values.c.value, alert_values.c.alert_id)

alert_surprises = sql.Table(
    "alert_surprises",
    metadata,
    text("alert_id", primary_key=True),
    sql.Column("place", sql.Integer, primary_key=True),  # in the alert's drivers, the strongest first
    text("surprise_id"),  # a digest of feature and seen: an index takes no text of any length
    text("feature"),
    text("seen"),
    sql.Column("surprise", Real, nullable=False),  # nats
)
sql.Index("alerts_of_surprise", alert_surprises.c.surprise_id, alert_surprises.c.alert_id)
