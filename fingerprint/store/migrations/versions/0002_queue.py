"""The queue as people work on it: cases, notes, views and the audit; what the queue is filtered by; what changed.

What is derived from alerts is filled for those that are there; who was judged before has a case.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sql
from alembic import op

from fingerprint.store.filter_values import update_filter_values
from fingerprint.store.queue_tables import AUTOINCREMENT_TYPE
from fingerprint.store.schema import FiniteJson, NanAsNull, UtcDateTime, required_text, required_time

revision, down_revision = "0002", "0001"

ALERTS = 500  # whose events are in memory at once

# What is read to fill the tables.
_alerts = sql.table(
    "alerts",
    sql.column("alert_id"),
    sql.column("principal"),
    sql.column("drivers", FiniteJson),
    sql.column("tactics", FiniteJson),
)
_events = sql.table("alert_events", sql.column("alert_id"), sql.column("service"), sql.column("raw"))

ONLY_GROWS = "the audit only grows: its lines are neither changed nor removed"
KEEP_SQLITE = "CREATE TRIGGER audit_keeps_{0} BEFORE {0} ON audit BEGIN SELECT RAISE(ABORT, '{1}'); END"
KEEP_POSTGRESQL = (
    f"CREATE FUNCTION audit_keeps() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION '{ONLY_GROWS}'; END $$ LANGUAGE plpgsql",
    "CREATE TRIGGER audit_keeps BEFORE UPDATE OR DELETE OR TRUNCATE ON audit EXECUTE FUNCTION audit_keeps()",
)


def upgrade() -> None:
    _columns()
    _work()
    _audit()
    _derived()
    _changes()
    _fill(op.get_bind())


NARROW = (
    *("alert_id", "principal", "human", "window_start", "first_event_time", "last_event_time", "urgency"),
    *("title", "level", "bank_version", "degraded"),
)
WIDE = ("drivers", "curve", "tactics", "next_steps")


def _columns() -> None:
    """What the queue shows of an alert without its events."""
    if op.get_bind().dialect.name == "sqlite":
        _rebuild()
    else:
        for column in _new():
            op.add_column("alerts", column)
    urgent, newest, largest = (
        sql.text(f"{name} DESC") for name in ("urgency_shown", "last_event_time", "event_count")
    )
    op.create_index("alerts_by_urgency", "alerts", [urgent, "first_event_time", "alert_id", "event_count"])
    op.create_index("alerts_newest", "alerts", [newest, "alert_id", "event_count"])
    op.create_index("alerts_oldest", "alerts", ["first_event_time", "alert_id", "event_count"])
    op.create_index("alerts_largest", "alerts", [largest, "first_event_time", "alert_id"])
    op.create_index("alerts_counted", "alerts", ["alert_id", "event_count", "urgency_shown"])


def _new() -> list[sql.Column[int]]:
    names = ("event_count", "urgency_shown", "sharing")
    return [sql.Column(name, sql.Integer, nullable=False, server_default="0") for name in names]


def _rebuild() -> None:
    """SQLite reads a row from its beginning: behind 6 kB of drivers and curve, the new columns would cost what those do."""
    own: dict[str, sql.Column[Any]] = {
        name: required_text(name) for name in ("principal", "human", "title", "level", "bank_version")
    }
    own |= {name: required_time(name) for name in ("window_start", "first_event_time", "last_event_time")}
    own["alert_id"] = required_text("alert_id", primary_key=True)
    own["urgency"] = sql.Column("urgency", sql.Integer, nullable=False)
    own["degraded"] = sql.Column("degraded", sql.Boolean, nullable=False, server_default=sql.false())
    wide = [sql.Column(name, FiniteJson, nullable=name == "curve") for name in WIDE]
    op.create_table("alerts_new", *(own[name] for name in NARROW), *_new(), *wide)
    columns = ", ".join((*NARROW, *WIDE))
    op.execute(f"INSERT INTO alerts_new ({columns}) SELECT {columns} FROM alerts")  # noqa: S608 - names of ours
    op.drop_table("alerts")
    op.rename_table("alerts_new", "alerts")
    op.create_index("alerts_in_order", "alerts", [sql.text("urgency DESC"), "first_event_time", "alert_id"])
    op.create_index("ix_alerts_principal", "alerts", ["principal"])


def _work() -> None:
    op.create_table(
        "cases",
        required_text("alert_id", primary_key=True),
        sql.Column("version", sql.Integer, nullable=False),
        required_text("assignee", server_default=""),
        sql.Column("decision", sql.Text),
        sql.Column("decided_events", sql.Integer, nullable=False, server_default="0"),
        sql.Column("decided_at", UtcDateTime),
        required_text("duplicate_of", server_default=""),
        required_time("at"),
        required_text("by"),
        sqlite_with_rowid=False,
    )
    op.create_index("cases_of_assignee", "cases", ["assignee"])
    note = (
        required_text("note_id", primary_key=True),
        required_text("alert_id"),
        required_time("at"),
        required_text("by"),
        required_text("text"),
    )
    op.create_table("notes", *note)
    op.create_index("notes_of_alert", "notes", ["alert_id", "at"])
    op.create_table(
        "views",
        required_text("owner", primary_key=True),
        required_text("name", primary_key=True),
        required_text("query"),
    )


def _audit() -> None:
    op.create_table(
        "audit",
        sql.Column("number", AUTOINCREMENT_TYPE, primary_key=True),
        required_time("at"),
        required_text("by"),
        required_text("action"),
        required_text("target"),
        sql.Column("detail", FiniteJson, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_of_target", "audit", ["target", "number"])
    sqlite = op.get_bind().dialect.name == "sqlite"
    kept = [KEEP_SQLITE.format(what, ONLY_GROWS) for what in ("UPDATE", "DELETE")]
    for statement in kept if sqlite else KEEP_POSTGRESQL:
        op.execute(sql.text(statement))


def _derived() -> None:
    names = ("alert_id", "kind", "value")
    values = (required_text(name, primary_key=True) for name in names)
    op.create_table("alert_values", *values, sqlite_with_rowid=False)
    op.create_index("alerts_of_value", "alert_values", ["kind", "value", "alert_id"])
    op.create_table(
        "alert_surprises",
        required_text("alert_id", primary_key=True),
        sql.Column("place", sql.Integer, primary_key=True),
        required_text("surprise_id"),
        required_text("feature"),
        required_text("seen"),
        sql.Column("surprise", NanAsNull, nullable=False),
    )
    op.create_index("alerts_of_surprise", "alert_surprises", ["surprise_id", "alert_id"])


def _changes() -> None:
    only = sql.Column("only", sql.Integer, primary_key=True, autoincrement=False)
    op.create_table("change_counter", only, sql.Column("number", sql.BigInteger, nullable=False))
    op.create_table(
        "changed",
        required_text("alert_id", primary_key=True),
        sql.Column("number", sql.BigInteger, nullable=False),
    )
    op.create_index("ix_changed_number", "changed", ["number"])


def _fill(connection: sql.Connection) -> None:
    """For what is there: how many events, services, accounts, tactics, surprises, and a case where somebody judged."""
    op.execute(
        "UPDATE alerts SET urgency_shown = urgency, event_count = "
        "(SELECT count(*) FROM alert_events WHERE alert_events.alert_id = alerts.alert_id)"
    )
    op.execute(
        'INSERT INTO cases (alert_id, version, decision, decided_events, decided_at, duplicate_of, at, "by") '
        'SELECT alert_id, 1, decision, events, at, duplicate_of, at, "by" FROM dispositions AS newest '
        "WHERE at = (SELECT max(at) FROM dispositions WHERE dispositions.alert_id = newest.alert_id) "
        "AND EXISTS (SELECT 1 FROM alerts WHERE alerts.alert_id = newest.alert_id)"
    )
    names = connection.execute(sql.select(_alerts.c.alert_id)).scalars().all()
    for start in range(0, len(names), ALERTS):
        part = names[start : start + ALERTS]
        alerts, events = (
            [
                dict(row)
                for row in connection.execute(sql.select(table).where(table.c.alert_id.in_(part))).mappings()
            ]
            for table in (_alerts, _events)
        )
        update_filter_values(connection, alerts, events)
