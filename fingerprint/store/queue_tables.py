"""The tables of people's work on alerts, and what the queue is filtered by. The scorer writes only what is derived from an alert.

cases              an alert that somebody touched: who has it, what was decided, how often it was changed
notes, views       what people wrote, and the filters that they keep
audit              who did what, and when; only ever added to
alert_values       an alert's services, accounts and tactics, a row each; derived
alert_surprises    its drivers, a row each, to find alerts that show the same; derived
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.store.schema import (
    FiniteJson,
    NanAsNull,
    UtcDateTime,
    metadata,
    required_text,
    required_time,
)

AUTOINCREMENT_TYPE = sql.BigInteger().with_variant(
    sql.Integer, "sqlite"
)  # SQLite counts up only what is INTEGER

audit_entries = sql.Table(
    "audit",
    metadata,
    sql.Column("number", AUTOINCREMENT_TYPE, primary_key=True),
    required_time("at"),
    required_text("by"),
    required_text("action"),
    required_text("target"),
    sql.Column("detail", FiniteJson, nullable=False),
    sqlite_autoincrement=True,
)
sql.Index("audit_of_target", audit_entries.c.target, audit_entries.c.number)

cases = sql.Table(
    "cases",
    metadata,
    required_text("alert_id", primary_key=True),
    sql.Column("version", sql.Integer, nullable=False),
    required_text("assignee", server_default=""),
    sql.Column("decision", sql.Text),  # null: nobody decided, or it was reopened
    sql.Column(
        "decided_events", sql.Integer, nullable=False, server_default="0"
    ),  # the decision is over so many
    sql.Column("decided_at", UtcDateTime),  # of the newest decision or reopening
    required_text("duplicate_of", server_default=""),
    required_time("at"),  # of the newest change, and by whom
    required_text("by"),
    sqlite_with_rowid=False,  # every row of a queue looks here: one step down the tree instead of two
)
sql.Index("cases_of_assignee", cases.c.assignee)

notes = sql.Table(
    "notes",
    metadata,
    required_text("note_id", primary_key=True),
    required_text("alert_id"),
    required_time("at"),
    required_text("by"),
    required_text("text"),
)
sql.Index("notes_of_alert", notes.c.alert_id, notes.c.at)

views = sql.Table(
    "views",
    metadata,
    required_text("owner", primary_key=True),
    required_text("name", primary_key=True),
    required_text("query"),
)

alert_values = sql.Table(
    "alert_values",
    metadata,
    required_text("alert_id", primary_key=True),
    required_text("kind", primary_key=True),  # service, account, tactic
    required_text("value", primary_key=True),
    sqlite_with_rowid=False,
)
sql.Index("alerts_of_value", alert_values.c.kind, alert_values.c.value, alert_values.c.alert_id)

alert_surprises = sql.Table(
    "alert_surprises",
    metadata,
    required_text("alert_id", primary_key=True),
    sql.Column("place", sql.Integer, primary_key=True),  # in the alert's drivers, the strongest first
    required_text("surprise_id"),  # a digest of feature and seen: an index takes no text of any length
    required_text("feature"),
    required_text("seen"),
    sql.Column("surprise", NanAsNull, nullable=False),  # nats
)
sql.Index("alerts_of_surprise", alert_surprises.c.surprise_id, alert_surprises.c.alert_id)
