"""All tables of the alert store, their column types and the helpers that every repository needs.

Example:
    >>> [table.name for table in metadata.sorted_tables if "alert_id" in table.c]
    ['alert_changes', 'alert_events', 'alert_links', ...]

All times are UTC. Tables marked *derived* are computed when alerts are saved. `migrations/` creates the same tables; a test
compares the two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect

from fingerprint.core.sanitize import storable

REQUIRED_TABLES = {"meta", "alerts", "alert_events", "votes"}  # a database with these is an alert store
STORED_AT = "stored_at"  # when the store first received a row; retention counts from here
MAX_IDS_PER_QUERY = 500  # ids of one IN (...)
LARGEST = 1e308  # stands for infinity in JSON
INSERT_BATCH = 10_000  # rows of one executemany
AUTOINCREMENT_TYPE = sql.BigInteger().with_variant(sql.Integer, "sqlite")  # SQLite only counts up INTEGER
# Text in byte order on PostgreSQL too, as SQLite orders all text
BYTE_ORDERED_TEXT = sql.Text().with_variant(sql.Text(collation="C"), "postgresql")

Row = dict[str, Any]
Condition = sql.ColumnElement[bool]
T = TypeVar("T")


# --- column types -----------------------------------------------------------------------------------------------------


class UtcDateTime(sql.types.TypeDecorator[datetime]):
    """A time that is stored in UTC and returned with the time zone UTC, even if the database stores no time zone."""

    impl = sql.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return a time in UTC for the database."""
        if value is None or value.tzinfo is UTC:
            return value
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return a time of the database in UTC."""
        return self.process_bind_param(value, dialect)


class NanAsNull(sql.types.TypeDecorator[float]):
    """A float; NaN is stored as null."""

    impl = sql.Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        """Return None in place of NaN."""
        return None if value is None or math.isnan(value) else value


class FiniteJson(sql.types.TypeDecorator[Any]):
    """A JSON list or object; NaN becomes null and infinity becomes LARGEST, because JSON has neither."""

    impl = sql.JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return JSON that every database can store."""
        return value if _is_plain(value) else _finite(storable(value))


def _is_plain(value: Any) -> bool:
    """Return whether nothing in a value needs a change, by its JSON: encoding it costs less than looking at each part."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):  # NumPy's scalars; NaN and infinities
        return False
    return "\\u0000" not in text and "\\ud" not in text


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else max(-LARGEST, min(LARGEST, value))
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return {key: _finite(part) for key, part in value.items()} if isinstance(value, dict) else value


metadata = sql.MetaData()


def required_text(name: str, **options: Any) -> sql.Column[str]:
    """Return a column of text that is never null."""
    return sql.Column(name, sql.Text, nullable=False, **options)


def required_time(name: str, **options: Any) -> sql.Column[datetime]:
    """Return a column of UTC times that is never null."""
    return sql.Column(name, UtcDateTime, nullable=False, **options)


# `version`: the newest migration that the database has taken; `feeds_checked_until`: see `feeds.py`.
meta = sql.Table("meta", metadata, required_text("name", primary_key=True), required_text("value"))


# --- what the pipeline writes -----------------------------------------------------------------------------------------

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
    sql.Column("rarity", sql.Integer, nullable=False, server_default="0"),
    sql.Column("impact", sql.Integer, nullable=False, server_default="0"),
    required_text("title"),
    required_text("level"),
    required_text("bank_version"),
    sql.Column("degraded", sql.Boolean, nullable=False, server_default=sql.false()),
    # For the queue, not fields of Alert: the number of its events; its urgency, lowered by `sharing` principals.
    sql.Column("event_count", sql.Integer, nullable=False, server_default="0"),
    sql.Column("urgency_shown", sql.Integer, nullable=False, server_default="0"),
    sql.Column("sharing", sql.Integer, nullable=False, server_default="0"),
    sql.Column(STORED_AT, UtcDateTime),
    required_text(
        "gravest_action", server_default=""
    ),  # `service:Action` of the first of `impact_of` that counts
    # Wide columns come last: SQLite reads a row from its beginning, and the queue needs none of these.
    sql.Column("drivers", FiniteJson, nullable=False),
    sql.Column("curve", FiniteJson(none_as_null=True)),
    sql.Column("tactics", FiniteJson, nullable=False),
    sql.Column("next_steps", FiniteJson, nullable=False),
    sql.Column("impact_of", FiniteJson, nullable=False),
    sql.Column(
        "supporting_events", FiniteJson, nullable=False
    ),  # without records, so that none has to be removed
)
ALERT_ORDER = (alerts.c.urgency.desc(), alerts.c.first_event_time, alerts.c.alert_id)
sql.Index("alerts_in_order", *ALERT_ORDER)
# One index for each order of the queue. Each has `event_count`, so that a closed alert is skipped without reading its row.
sql.Index(
    "alerts_by_urgency",
    alerts.c.urgency_shown.desc(),
    alerts.c.first_event_time,
    alerts.c.alert_id,
    alerts.c.event_count,
)
sql.Index(  # with the urgency: counts by day and severity read this index alone
    "alerts_newest",
    alerts.c.last_event_time.desc(),
    alerts.c.alert_id,
    alerts.c.event_count,
    alerts.c.urgency_shown,
)
sql.Index("alerts_oldest", alerts.c.first_event_time, alerts.c.alert_id, alerts.c.event_count)
sql.Index("alerts_largest", alerts.c.event_count.desc(), alerts.c.first_event_time, alerts.c.alert_id)
sql.Index(  # what the overview reads of each alert: the rows themselves are wide
    "alerts_stored",
    alerts.c.stored_at,
    alerts.c.alert_id,
    alerts.c.urgency_shown,
    alerts.c.event_count,
    alerts.c.last_event_time,
)
# Counting reads this index and `cases`, both in the order of ids, and no rows of `alerts`, which are wide. The index has all
# columns
# that a count needs: without `urgency`, which decides what a suppression may hide, a count took five times as long.
sql.Index("alerts_counted", alerts.c.alert_id, alerts.c.event_count, alerts.c.urgency_shown, alerts.c.urgency)
# PostgreSQL finds the beginning of an id by this index in any collation; SQLite by the primary key.
sql.Index("alerts_by_prefix", alerts.c.alert_id, postgresql_ops={"alert_id": "text_pattern_ops"}).ddl_if(
    dialect="postgresql"
)
# A hash index takes a principal longer than a B-tree does.
sql.Index("ix_alerts_principal", alerts.c.principal, postgresql_using="hash")

alert_events = sql.Table(  # an alert's evidence
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
    sql.Column("scores", FiniteJson, nullable=False),  # {detector: z or null}; see `rows.py`
    sql.Column("flagged_by", FiniteJson, nullable=False),  # detectors
    sql.Column("thresholds", FiniteJson, nullable=False),  # {detector: z}
    required_text("raw"),
    required_text("bank_version", server_default=""),
    required_text("access_key", server_default=""),
    required_text("resource", server_default=""),
    sql.Column(STORED_AT, UtcDateTime, index=True),
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
    sql.Column("alone", sql.Boolean, nullable=False, server_default=sql.false()),
    sql.Column(STORED_AT, UtcDateTime, index=True),
    required_text("action", server_default=""),
    sql.Column("reach", NanAsNull),
)
VOTE_COLUMNS = tuple(column.name for column in votes.columns if column.name != STORED_AT)
sql.Index("votes_of_principal", votes.c.principal, votes.c.event_time).ddl_if(dialect="sqlite")
_has_reach = votes.c.reach.is_not(None)
sql.Index(  # leads
    "votes_by_reach", votes.c.reach, sqlite_where=_has_reach, postgresql_where=_has_reach
)
sql.Index("votes_by_principal", votes.c.principal, postgresql_using="hash").ddl_if(dialect="postgresql")

credential_issues = sql.Table(  # calls that handed out an access key
    "credential_issues",
    metadata,
    required_text("issued_key", primary_key=True),
    required_time("at", index=True),
    required_text("event_id"),
    required_text("action"),
    required_text("principal"),
    required_text("human"),
    required_text("access_key"),
    required_text("source_address"),
    required_text("region"),
    sql.Column(STORED_AT, UtcDateTime, index=True),
)

sql.Index("issues_of_principal", credential_issues.c.principal, postgresql_using="hash")
sql.Index("issues_with_key", credential_issues.c.access_key)

feed_counts = sql.Table(  # `at` is the start of an interval, seconds since 1970
    "feed_counts",
    metadata,
    required_text("kind", primary_key=True),
    required_text("feed", primary_key=True),
    sql.Column("at", sql.BigInteger, primary_key=True, index=True, autoincrement=False),
    required_text("partition", primary_key=True),
    sql.Column("events", sql.BigInteger, nullable=False),
)

feed_progress = sql.Table(  # until when a partition's counts are complete, seconds since 1970
    "feed_progress",
    metadata,
    required_text("partition", primary_key=True),
    sql.Column("complete_until", sql.BigInteger, nullable=False),
)

feed_gaps = sql.Table(
    "feed_gaps",
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

heartbeats = sql.Table(  # the last status of each running program
    "heartbeats",
    metadata,
    required_text("kind", primary_key=True),
    required_text("name", primary_key=True),
    required_time("at"),
    sql.Column("lag", sql.BigInteger),
    sql.Column("figures", FiniteJson, nullable=False),
    required_text("trouble", server_default=""),
)

alert_values = sql.Table(  # derived: fields with several values, a row each; see `filter_values.py`
    "alert_values",
    metadata,
    required_text("alert_id", primary_key=True),
    required_text("kind", primary_key=True),  # service, action, address ...
    required_text("value", primary_key=True),
    # In small letters, as searches compare it
    sql.Column("lower_value", BYTE_ORDERED_TEXT, sql.Computed("lower(value)", persisted=True)),
    sqlite_with_rowid=False,
)
sql.Index("alerts_of_value", alert_values.c.kind, alert_values.c.value, alert_values.c.alert_id)
sql.Index("alert_values_search", alert_values.c.kind, alert_values.c.lower_value, alert_values.c.alert_id)

alert_texts = sql.Table(  # derived: the words of an alert, separated by blanks, for full text search
    "alert_texts",
    metadata,
    sql.Column("number", AUTOINCREMENT_TYPE, primary_key=True),
    required_text("alert_id", unique=True),
    required_text("words"),
)
# SQLAlchemy cannot describe these for both databases: full text, and statistics of the values of each kind. Without the
# statistics, PostgreSQL takes a value that all alerts have for a rare one, and joins its alerts one by one.
# The full text index: an FTS5 table that follows `alert_texts`, or PostgreSQL's GIN.
WORD_INDEX = "alert_words"
WORD_VECTOR = "word_vector"  # PostgreSQL's column of `alert_texts`: its words as a tsvector
SEARCH_DDL = {
    "sqlite": (
        "CREATE VIRTUAL TABLE alert_words USING fts5(words, content='alert_texts', content_rowid='number', "
        "detail='none', tokenize='unicode61 remove_diacritics 0')",
        "CREATE TRIGGER alert_words_insert AFTER INSERT ON alert_texts BEGIN "
        "INSERT INTO alert_words (rowid, words) VALUES (new.number, new.words); END",
        "CREATE TRIGGER alert_words_delete AFTER DELETE ON alert_texts BEGIN "
        "INSERT INTO alert_words (alert_words, rowid, words) VALUES ('delete', old.number, old.words); END",
        "CREATE TRIGGER alert_words_update AFTER UPDATE ON alert_texts BEGIN "
        "INSERT INTO alert_words (alert_words, rowid, words) VALUES ('delete', old.number, old.words); "
        "INSERT INTO alert_words (rowid, words) VALUES (new.number, new.words); END",
    ),
    "postgresql": (
        f"ALTER TABLE alert_texts ADD COLUMN {WORD_VECTOR} tsvector "
        "GENERATED ALWAYS AS (array_to_tsvector(string_to_array(words, ' '))) STORED",
        f"CREATE INDEX {WORD_INDEX} ON alert_texts USING gin ({WORD_VECTOR})",
        "CREATE STATISTICS alert_values_common (mcv) ON kind, lower_value FROM alert_values",
    ),
}
for _dialect, _statements in SEARCH_DDL.items():
    for _statement in _statements:
        sql.event.listen(alert_texts, "after_create", sql.DDL(_statement).execute_if(dialect=_dialect))  # type: ignore[no-untyped-call]

alert_surprises = sql.Table(  # derived: an alert's drivers, a row each, to find alerts that show the same
    "alert_surprises",
    metadata,
    required_text("alert_id", primary_key=True),
    sql.Column("rank", sql.Integer, primary_key=True),  # 0 is the strongest
    required_text("surprise_id"),  # a digest of feature and value: an index takes no text of any length
    required_text("feature"),
    required_text("seen"),
    sql.Column("surprise", NanAsNull, nullable=False),  # nats
    required_time("last_event_time"),  # of the alert
)
sql.Index(  # many alerts may share a surprise, of which the newest are wanted
    "alerts_of_surprise",
    alert_surprises.c.surprise_id,
    alert_surprises.c.last_event_time.desc(),
    alert_surprises.c.alert_id,
)

shared_surprises = (
    sql.Table(  # derived: how many other principals show a surprise; times in seconds since 1970
        "shared_surprises",
        metadata,
        required_text("alert_id", primary_key=True),
        required_text("surprise_id", primary_key=True),
        required_text("principal_digest"),
        sql.Column("first_at", sql.BigInteger, nullable=False),
        sql.Column("last_at", sql.BigInteger, nullable=False),
        sql.Column("others", sql.Integer, nullable=False, server_default="0"),  # capped, see `prevalence.py`
        sql.Column("attack", sql.Boolean, nullable=False, server_default=sql.false()),  # a true positive
    )
)
sql.Index("surprises_shared", shared_surprises.c.surprise_id, shared_surprises.c.last_at)

alert_links = (
    sql.Table(  # derived: values by which an alert may join an incident; times in seconds since 1970
        "alert_links",
        metadata,
        required_text("alert_id", primary_key=True),
        required_text("kind", primary_key=True),  # of `core.incident.LinkKind`
        required_text("value", primary_key=True),
        required_text("principal_digest"),
        sql.Column("first_at", sql.BigInteger, nullable=False),
        sql.Column("last_at", sql.BigInteger, nullable=False),
        # Not a key that the alert used, but an issuer's, or one that its calls issued.
        sql.Column("inherited", sql.Boolean, nullable=False, server_default=sql.false()),
        sql.Column(
            "common", sql.Boolean, nullable=False, server_default=sql.false()
        ),  # too many principals show it
    )
)
sql.Index("alerts_of_link", alert_links.c.kind, alert_links.c.value, alert_links.c.last_at)

incident_alerts = sql.Table(  # derived: the incident of each alert, and why
    "incident_alerts",
    metadata,
    required_text("alert_id", primary_key=True),
    required_text("incident_id"),
    required_text("reason"),
    required_text("value"),
    required_text("with_alert"),
)
sql.Index("alerts_of_incident", incident_alerts.c.incident_id, incident_alerts.c.alert_id)

incidents = sql.Table(  # derived: figures over an incident's alerts, to list incidents in order
    "incidents",
    metadata,
    required_text("incident_id", primary_key=True),  # the id of its oldest alert
    sql.Column("alerts", sql.Integer, nullable=False),
    sql.Column("open_alerts", sql.Integer, nullable=False),
    sql.Column("touched_alerts", sql.Integer, nullable=False),  # closed or in progress
    sql.Column("urgency", sql.Integer, nullable=False),
    required_time("first_event_time"),
    required_time("last_event_time"),
    sql.Column(STORED_AT, UtcDateTime),  # of the first alert that came
)
sql.Index(
    "incidents_by_urgency",
    incidents.c.urgency.desc(),
    incidents.c.first_event_time,
    incidents.c.incident_id,
    incidents.c.open_alerts,
)
sql.Index(
    "incidents_newest", incidents.c.last_event_time.desc(), incidents.c.incident_id, incidents.c.open_alerts
)
sql.Index("incidents_oldest", incidents.c.first_event_time, incidents.c.incident_id, incidents.c.open_alerts)

change_counter = sql.Table(  # one row: the number of the newest change
    "change_counter",
    metadata,
    sql.Column("only", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("number", sql.BigInteger, nullable=False),
)

alert_changes = (
    sql.Table(  # the number of each alert's newest change: one row an alert, however often it changed
        "alert_changes",
        metadata,
        sql.Column("alert_id", sql.Text, primary_key=True, nullable=False),
        sql.Column("number", sql.BigInteger, nullable=False, index=True),
    )
)


# --- what analysts write ----------------------------------------------------------------------------------------------

cases = sql.Table(  # the state of an alert that an analyst has changed
    "cases",
    metadata,
    required_text("alert_id", primary_key=True),
    sql.Column("version", sql.Integer, nullable=False),
    required_text("assignee", server_default=""),
    sql.Column("decision", sql.Text),  # null: undecided, or reopened
    sql.Column("decided_events", sql.Integer, nullable=False, server_default="0"),  # events it was decided on
    sql.Column("decided_at", UtcDateTime),  # of the decision in force, or of its removal
    required_text("duplicate_of", server_default=""),
    sql.Column("in_progress", sql.Boolean, nullable=False, server_default=sql.false()),  # while it is open
    sql.Column("responded_at", UtcDateTime),  # of the first thing that a person did
    required_time("at"),  # of the newest change
    required_text("by"),
    sqlite_with_rowid=False,  # the queue looks here for every row: one step down the tree instead of two
)
sql.Index("cases_of_assignee", cases.c.assignee)

dispositions = (
    sql.Table(  # all decisions except undone ones; the newest counts, the others are the alert's history
        "dispositions",
        metadata,
        required_text("alert_id", primary_key=True),
        required_time("at", primary_key=True),
        required_text("decision"),
        required_text("by"),
        required_text("why"),
        sql.Column("events", sql.Integer, nullable=False),
        required_text("duplicate_of"),
        sql.Column("replaced_at", UtcDateTime),  # of the decision in force before; null: there was none
    )
)
sql.Index("dispositions_of_original", dispositions.c.duplicate_of)  # retention asks for each closed alert

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

incident_edits = sql.Table(  # splits and joins by hand, a row for each alert; the rule never undoes them
    "incident_edits",
    metadata,
    required_text("edit_id", primary_key=True),
    sql.Column("place", sql.Integer, primary_key=True, autoincrement=False),  # of the alert in the edit
    required_text("alert_id"),
    required_text("kind"),  # split, join
    required_text("with_alert"),
    required_time("at"),
    required_text("by"),
    sql.Column("undone", sql.Boolean, nullable=False, server_default=sql.false()),
)
sql.Index("incident_edits_of_alert", incident_edits.c.alert_id)
sql.Index("incident_edits_with_alert", incident_edits.c.with_alert)

views = sql.Table(  # filters of the queue that a person saved under a name
    "views",
    metadata,
    required_text("owner", primary_key=True),
    required_text("name", primary_key=True),
    required_text("query"),
)

audit_entries = sql.Table(  # append-only: triggers refuse to change or remove a row
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

threshold_overrides = sql.Table(  # append-only: the newest row is in force
    "threshold_overrides",
    metadata,
    sql.Column("number", AUTOINCREMENT_TYPE, primary_key=True),
    required_time("at"),
    required_text("by"),
    required_text("why"),
    sql.Column("threshold", NanAsNull),
    sql.Column("quorum", sql.Integer),
    sql.Column("cleared", sql.Boolean, nullable=False),
    sqlite_autoincrement=True,
)

suppressions = sql.Table(
    "suppressions",
    metadata,
    required_text("suppression_id", primary_key=True),
    sql.Column("version", sql.Integer, nullable=False),
    sql.Column("match", FiniteJson, nullable=False),
    required_text("reason"),
    required_text("owner"),
    required_time("created_at"),
    required_time("expires_at"),
    sql.Column("ended_at", UtcDateTime),
    required_text("forced", server_default=""),  # why it may hide attacks, too; empty: it may not
)

suppression_hits = sql.Table(  # alerts that a suppression matches or has matched
    "suppression_hits",
    metadata,
    required_text("suppression_id", primary_key=True),
    required_text("alert_id", primary_key=True),
    required_time("at"),
    sql.Column("outgrown", sql.Boolean, nullable=False, server_default=sql.false()),  # matches no more
)
sql.Index("hits_of_alert", suppression_hits.c.alert_id)

removed_records = sql.Table(  # alerts whose raw records retention removed
    "removed_records", metadata, required_text("alert_id", primary_key=True), required_time("at")
)


# --- deliveries to receivers ------------------------------------------------------------------------------------------

deliveries = sql.Table(  # one change of one alert, for one receiver
    "deliveries",
    metadata,
    required_text("key", primary_key=True),  # a digest of receiver, alert and change
    required_text("receiver"),
    required_text("alert_id"),
    required_text("happened"),
    required_time("created_at"),
    required_time("due_at"),
    sql.Column("tries", sql.Integer, nullable=False),
    required_text("state"),  # waiting, sent, failed
    required_text("reason"),
    sql.Column("done_at", UtcDateTime),
    sql.Column("leased_until", UtcDateTime),
    required_text("leased_by", server_default=""),
)
sql.Index("deliveries_due", deliveries.c.receiver, deliveries.c.state, deliveries.c.due_at)
sql.Index("deliveries_newest", deliveries.c.created_at, deliveries.c.key)
sql.Index("deliveries_of_state", deliveries.c.receiver, deliveries.c.state, deliveries.c.created_at)

last_delivered = sql.Table(  # the state of an alert that a receiver knows
    "last_delivered",
    metadata,
    required_text("receiver", primary_key=True),
    required_text("alert_id", primary_key=True),
    sql.Column("events", sql.Integer, nullable=False),
    sql.Column("decided_at", UtcDateTime),
)

receiver_positions = sql.Table(  # the number of the newest change that was scheduled for a receiver
    "receiver_positions",
    metadata,
    required_text("receiver", primary_key=True),
    sql.Column("position", sql.BigInteger, nullable=False),
)


# --- accounts: secrets and passwords are stored as digests only -------------------------------------------------------

accounts = sql.Table(  # a row is never removed: the audit has names, and a name must not change its owner
    "accounts",
    metadata,
    required_text("account_id", primary_key=True),
    required_text("name"),
    required_text("role"),
    sql.Column("password", sql.Text),  # argon2's string, with its salt and costs
    required_text("issuer", server_default=""),
    required_text("subject", server_default=""),
    required_time("created_at"),
    sql.Column("disabled_at", UtcDateTime),
    sql.Column("last_login", UtcDateTime),
)
sql.Index("accounts_of_name", accounts.c.name, unique=True)
_has_subject = accounts.c.subject != ""
sql.Index(
    "accounts_of_provider",
    accounts.c.issuer,
    accounts.c.subject,
    unique=True,
    sqlite_where=_has_subject,
    postgresql_where=_has_subject,
)

sessions = sql.Table(
    "sessions",
    metadata,
    required_text("digest", primary_key=True),
    required_text("session_id"),  # by which a page names it
    required_text("account_id"),
    required_time("created_at"),
    required_time("seen_at"),  # approximate: not every request is recorded
    required_time("expires_at"),
    required_text("address"),
    required_text("agent"),
    required_text("proof"),
    sql.Column("proven_at", UtcDateTime),
    required_text("challenge", server_default=""),  # that a passkey is to sign, once
)
sql.Index("sessions_of_account", sessions.c.account_id)
sql.Index("sessions_of_id", sessions.c.session_id, unique=True)

pending_logins = sql.Table(  # the password was right, the second factor is awaited
    "pending_logins",
    metadata,
    required_text("digest", primary_key=True),
    required_text("account_id"),
    required_time("expires_at"),
    required_text("challenge", server_default=""),
)
sql.Index("pending_logins_of_account", pending_logins.c.account_id)

second_factors = sql.Table(
    "second_factors",
    metadata,
    required_text("factor_id", primary_key=True),
    required_text("account_id"),
    required_text("kind"),
    required_text("label"),
    required_text("secret"),  # an app's key, a passkey's public key, or a recovery code's digest
    required_text("credential", server_default=""),  # a passkey's own id
    sql.Column("counter", sql.BigInteger, nullable=False),  # the last code's time step, or a passkey's count
    required_time("created_at"),
    sql.Column("last_used", UtcDateTime),
)
sql.Index("second_factors_of_account", second_factors.c.account_id)

known_browsers = sql.Table(  # browsers in which an account logged in before
    "known_browsers",
    metadata,
    required_text("digest", primary_key=True),
    required_text("account_id"),
    required_time("seen_at"),
)
sql.Index("known_browsers_of_account", known_browsers.c.account_id)

tokens = sql.Table(
    "tokens",
    metadata,
    required_text("token_id", primary_key=True),
    required_text("digest"),
    required_text("account_id"),
    required_text("label"),
    sql.Column("scopes", FiniteJson, nullable=False),
    required_time("created_at"),
    required_time("expires_at"),
    sql.Column("last_used", UtcDateTime),
    sql.Column("revoked_at", UtcDateTime),
)
sql.Index("tokens_of_account", tokens.c.account_id)
sql.Index("tokens_of_digest", tokens.c.digest, unique=True)

invitations = sql.Table(  # a used one is removed; without a name it is the first admin's
    "invitations",
    metadata,
    required_text("digest", primary_key=True),
    required_text("name"),
    required_time("expires_at"),
)
sql.Index("invitations_of_name", invitations.c.name)

login_attempts = sql.Table(  # failed logins; `counter` is a digest of account and origin
    "login_attempts",
    metadata,
    required_text("counter", primary_key=True),
    sql.Column("failures", sql.Integer, nullable=False),
    required_time("begun_at"),
    required_time("at"),
)
sql.Index("login_attempts_begun", login_attempts.c.begun_at)


# --- helpers ----------------------------------------------------------------------------------------------------------


def id_batches(ids: Sequence[T], size: int = MAX_IDS_PER_QUERY) -> Iterator[Sequence[T]]:
    """Yield slices of ids that are short enough for one IN (...)."""
    yield from (ids[start : start + size] for start in range(0, len(ids), size))


def insert_into(connection: sql.Connection, table: sql.Table) -> Any:
    """Return an INSERT with support for ON CONFLICT, which both dialects have."""
    return _insert(connection.dialect.name, table)


@cache
def _insert(dialect: str, table: sql.Table) -> Any:
    """Return a cached INSERT: statements are never changed, only copied, so one of each is enough."""
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


def replace_into(connection: sql.Connection, table: sql.Table, where: Any = None) -> Any:
    """Return an INSERT that overwrites all columns of the row with the same key, if `where` holds for that row."""
    insert, keys = insert_into(connection, table), [column.name for column in table.primary_key]
    new = {column.name: insert.excluded[column.name] for column in table.columns if column.name not in keys}
    return insert.on_conflict_do_update(index_elements=keys, set_=new, where=where)


def execute_batches(connection: sql.Connection, statement: Any, rows: Iterable[Row]) -> None:
    """Execute a statement for each row, INSERT_BATCH of them at a time."""
    for batch in id_batches(list(rows), INSERT_BATCH):
        connection.execute(statement, batch)
