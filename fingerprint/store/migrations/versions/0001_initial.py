"""Create the tables of the alert store.

Column types are the database's own; how programs convert the values is in `schema.py`.
"""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

revision, down_revision = "0001", None

AUTOINCREMENT_TYPE = sql.BigInteger().with_variant(sql.Integer, "sqlite")  # SQLite only counts up INTEGER
BYTE_ORDERED_TEXT = sql.Text().with_variant(sql.Text(collation="C"), "postgresql")
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
        "ALTER TABLE alert_texts ADD COLUMN word_vector tsvector "
        "GENERATED ALWAYS AS (array_to_tsvector(string_to_array(words, ' '))) STORED",
        "CREATE INDEX alert_words ON alert_texts USING gin (word_vector)",
        "CREATE STATISTICS alert_values_common (mcv) ON kind, lower_value FROM alert_values",
    ),
}

APPEND_ONLY = "the audit only grows: its lines are neither changed nor removed"
SQLITE_TRIGGER = "CREATE TRIGGER audit_keeps_{0} BEFORE {0} ON audit BEGIN SELECT RAISE(ABORT, '{1}'); END"
POSTGRESQL_TRIGGER = (
    f"CREATE FUNCTION audit_keeps() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION '{APPEND_ONLY}'; END $$ LANGUAGE plpgsql",
    "CREATE TRIGGER audit_keeps BEFORE UPDATE OR DELETE OR TRUNCATE ON audit EXECUTE FUNCTION audit_keeps()",
)


def upgrade() -> None:
    """Create all tables, triggers and indexes."""
    _create_alert_tables()
    _create_stream_tables()
    _create_case_tables()
    _create_audit_table()
    _create_delivery_tables()
    _create_account_tables()


def _create_alert_tables() -> None:
    op.create_table(
        "meta",
        sql.Column("name", sql.Text(), nullable=False),
        sql.Column("value", sql.Text(), nullable=False),
        sql.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "alerts",
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("principal", sql.Text(), nullable=False),
        sql.Column("human", sql.Text(), nullable=False),
        sql.Column("window_start", sql.DateTime(timezone=True), nullable=False),
        sql.Column("first_event_time", sql.DateTime(timezone=True), nullable=False),
        sql.Column("last_event_time", sql.DateTime(timezone=True), nullable=False),
        sql.Column("urgency", sql.Integer(), nullable=False),
        sql.Column("rarity", sql.Integer(), server_default="0", nullable=False),
        sql.Column("impact", sql.Integer(), server_default="0", nullable=False),
        sql.Column("title", sql.Text(), nullable=False),
        sql.Column("level", sql.Text(), nullable=False),
        sql.Column("bank_version", sql.Text(), nullable=False),
        sql.Column("degraded", sql.Boolean(), server_default=sql.false(), nullable=False),
        sql.Column("event_count", sql.Integer(), server_default="0", nullable=False),
        sql.Column("urgency_shown", sql.Integer(), server_default="0", nullable=False),
        sql.Column("sharing", sql.Integer(), server_default="0", nullable=False),
        sql.Column("stored_at", sql.DateTime(timezone=True), nullable=True),
        sql.Column("gravest_action", sql.Text(), server_default="", nullable=False),
        sql.Column("drivers", sql.JSON(), nullable=False),
        sql.Column("curve", sql.JSON(), nullable=True),
        sql.Column("tactics", sql.JSON(), nullable=False),
        sql.Column("next_steps", sql.JSON(), nullable=False),
        sql.Column("impact_of", sql.JSON(), nullable=False),
        sql.Column("supporting_events", sql.JSON(), nullable=False),
        sql.PrimaryKeyConstraint("alert_id"),
    )
    op.create_index(
        "alerts_by_urgency",
        "alerts",
        [sql.text("urgency_shown DESC"), "first_event_time", "alert_id", "event_count"],
    )
    op.create_index("alerts_counted", "alerts", ["alert_id", "event_count", "urgency_shown", "urgency"])
    op.create_index("alerts_in_order", "alerts", [sql.text("urgency DESC"), "first_event_time", "alert_id"])
    op.create_index(
        "alerts_largest", "alerts", [sql.text("event_count DESC"), "first_event_time", "alert_id"]
    )
    op.create_index(
        "alerts_newest",
        "alerts",
        [sql.text("last_event_time DESC"), "alert_id", "event_count", "urgency_shown"],
    )
    op.create_index("alerts_oldest", "alerts", ["first_event_time", "alert_id", "event_count"])
    op.create_index(
        "alerts_stored",
        "alerts",
        ["stored_at", "alert_id", "urgency_shown", "event_count", "last_event_time"],
    )
    op.create_index("ix_alerts_principal", "alerts", ["principal"], postgresql_using="hash")
    op.create_table(
        "alert_events",
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("event_id", sql.Text(), nullable=False),
        sql.Column("event_time", sql.DateTime(timezone=True), nullable=False),
        sql.Column("entity", sql.Text(), nullable=False),
        sql.Column("service", sql.Text(), nullable=False),
        sql.Column("action", sql.Text(), nullable=False),
        sql.Column("region", sql.Text(), nullable=False),
        sql.Column("source_address", sql.Text(), nullable=False),
        sql.Column("user_agent", sql.Text(), nullable=False),
        sql.Column("error_code", sql.Text(), nullable=False),
        sql.Column("session", sql.Text(), nullable=False),
        sql.Column("scores", sql.JSON(), nullable=False),
        sql.Column("flagged_by", sql.JSON(), nullable=False),
        sql.Column("thresholds", sql.JSON(), nullable=False),
        sql.Column("raw", sql.Text(), nullable=False),
        sql.Column("bank_version", sql.Text(), server_default="", nullable=False),
        sql.Column("access_key", sql.Text(), server_default="", nullable=False),
        sql.Column("resource", sql.Text(), server_default="", nullable=False),
        sql.Column("stored_at", sql.DateTime(timezone=True), nullable=True),
        sql.PrimaryKeyConstraint("alert_id", "event_id"),
    )
    op.create_index("ix_alert_events_stored_at", "alert_events", ["stored_at"])
    op.create_table(
        "votes",
        sql.Column("event_id", sql.Text(), nullable=False),
        sql.Column("detector", sql.Text(), nullable=False),
        sql.Column("event_time", sql.DateTime(timezone=True), nullable=False),
        sql.Column("principal", sql.Text(), nullable=False),
        sql.Column("entity", sql.Text(), nullable=False),
        sql.Column("z", sql.Double(), nullable=False),
        sql.Column("threshold", sql.Double(), nullable=False),
        sql.Column("vote", sql.Boolean(), nullable=False),
        sql.Column("level", sql.Text(), nullable=False),
        sql.Column("bank_version", sql.Text(), server_default="", nullable=False),
        sql.Column("alone", sql.Boolean(), server_default=sql.false(), nullable=False),
        sql.Column("stored_at", sql.DateTime(timezone=True), nullable=True),
        sql.PrimaryKeyConstraint("event_id", "detector"),
    )
    op.create_index("ix_votes_event_time", "votes", ["event_time"])
    op.create_index("ix_votes_stored_at", "votes", ["stored_at"])
    op.create_table(
        "credential_issues",
        sql.Column("issued_key", sql.Text(), nullable=False),
        sql.Column("at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("event_id", sql.Text(), nullable=False),
        sql.Column("action", sql.Text(), nullable=False),
        sql.Column("principal", sql.Text(), nullable=False),
        sql.Column("human", sql.Text(), nullable=False),
        sql.Column("access_key", sql.Text(), nullable=False),
        sql.Column("source_address", sql.Text(), nullable=False),
        sql.Column("region", sql.Text(), nullable=False),
        sql.Column("stored_at", sql.DateTime(timezone=True), nullable=True),
        sql.PrimaryKeyConstraint("issued_key"),
    )
    op.create_index("ix_credential_issues_at", "credential_issues", ["at"])
    op.create_index("ix_credential_issues_stored_at", "credential_issues", ["stored_at"])
    op.create_index("issues_of_principal", "credential_issues", ["principal"], postgresql_using="hash")
    op.create_index("issues_with_key", "credential_issues", ["access_key"])
    op.create_table(
        "alert_values",
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("kind", sql.Text(), nullable=False),
        sql.Column("value", sql.Text(), nullable=False),
        sql.Column("lower_value", BYTE_ORDERED_TEXT, sql.Computed("lower(value)", persisted=True)),
        sql.PrimaryKeyConstraint("alert_id", "kind", "value"),
        sqlite_with_rowid=False,
    )
    op.create_index("alerts_of_value", "alert_values", ["kind", "value", "alert_id"])
    op.create_index("alert_values_search", "alert_values", ["kind", "lower_value", "alert_id"])
    op.create_table(
        "alert_texts",
        sql.Column("number", AUTOINCREMENT_TYPE, nullable=False),
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("words", sql.Text(), nullable=False),
        sql.PrimaryKeyConstraint("number"),
        sql.UniqueConstraint("alert_id"),
    )
    for statement in SEARCH_DDL[op.get_bind().dialect.name]:
        op.execute(statement)
    op.create_table(
        "alert_surprises",
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("rank", sql.Integer(), nullable=False),
        sql.Column("surprise_id", sql.Text(), nullable=False),
        sql.Column("feature", sql.Text(), nullable=False),
        sql.Column("seen", sql.Text(), nullable=False),
        sql.Column("surprise", sql.Double(), nullable=False),
        sql.Column("last_event_time", sql.DateTime(timezone=True), nullable=False),
        sql.PrimaryKeyConstraint("alert_id", "rank"),
    )
    op.create_index(
        "alerts_of_surprise",
        "alert_surprises",
        ["surprise_id", sql.text("last_event_time DESC"), "alert_id"],
    )
    op.create_table(
        "shared_surprises",
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("surprise_id", sql.Text(), nullable=False),
        sql.Column("principal_digest", sql.Text(), nullable=False),
        sql.Column("first_at", sql.BigInteger(), nullable=False),
        sql.Column("last_at", sql.BigInteger(), nullable=False),
        sql.Column("others", sql.Integer(), server_default="0", nullable=False),
        sql.Column("attack", sql.Boolean(), server_default=sql.false(), nullable=False),
        sql.PrimaryKeyConstraint("alert_id", "surprise_id"),
    )
    op.create_index("surprises_shared", "shared_surprises", ["surprise_id", "last_at"])
    op.create_table(
        "alert_links",
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("kind", sql.Text(), nullable=False),
        sql.Column("value", sql.Text(), nullable=False),
        sql.Column("principal_digest", sql.Text(), nullable=False),
        sql.Column("first_at", sql.BigInteger(), nullable=False),
        sql.Column("last_at", sql.BigInteger(), nullable=False),
        sql.Column("inherited", sql.Boolean(), server_default=sql.false(), nullable=False),
        sql.Column("common", sql.Boolean(), server_default=sql.false(), nullable=False),
        sql.PrimaryKeyConstraint("alert_id", "kind", "value"),
    )
    op.create_index("alerts_of_link", "alert_links", ["kind", "value", "last_at"])
    op.create_table(
        "incident_alerts",
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("incident_id", sql.Text(), nullable=False),
        sql.Column("reason", sql.Text(), nullable=False),
        sql.Column("value", sql.Text(), nullable=False),
        sql.Column("with_alert", sql.Text(), nullable=False),
        sql.PrimaryKeyConstraint("alert_id"),
    )
    op.create_index("alerts_of_incident", "incident_alerts", ["incident_id", "alert_id"])
    op.create_table(
        "incidents",
        sql.Column("incident_id", sql.Text(), nullable=False),
        sql.Column("alerts", sql.Integer(), nullable=False),
        sql.Column("open_alerts", sql.Integer(), nullable=False),
        sql.Column("touched_alerts", sql.Integer(), nullable=False),
        sql.Column("urgency", sql.Integer(), nullable=False),
        sql.Column("first_event_time", sql.DateTime(timezone=True), nullable=False),
        sql.Column("last_event_time", sql.DateTime(timezone=True), nullable=False),
        sql.Column("stored_at", sql.DateTime(timezone=True), nullable=True),
        sql.PrimaryKeyConstraint("incident_id"),
    )
    op.create_index(
        "incidents_by_urgency",
        "incidents",
        [sql.text("urgency DESC"), "first_event_time", "incident_id", "open_alerts"],
    )
    op.create_index(
        "incidents_newest", "incidents", [sql.text("last_event_time DESC"), "incident_id", "open_alerts"]
    )
    op.create_index("incidents_oldest", "incidents", ["first_event_time", "incident_id", "open_alerts"])
    op.create_table(
        "change_counter",
        sql.Column("only", sql.Integer(), autoincrement=False, nullable=False),
        sql.Column("number", sql.BigInteger(), nullable=False),
        sql.PrimaryKeyConstraint("only"),
    )
    op.create_table(
        "alert_changes",
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("number", sql.BigInteger(), nullable=False),
        sql.PrimaryKeyConstraint("alert_id"),
    )
    op.create_index("ix_alert_changes_number", "alert_changes", ["number"])
    if op.get_bind().dialect.name == "sqlite":
        op.create_index("votes_of_principal", "votes", ["principal", "event_time"])
    else:
        op.create_index(
            "alerts_by_prefix", "alerts", ["alert_id"], postgresql_ops={"alert_id": "text_pattern_ops"}
        )
        # a B-tree takes 2,704 bytes, and a principal may be longer; a hash index takes any
        op.create_index("votes_by_principal", "votes", ["principal"], postgresql_using="hash")


def _create_stream_tables() -> None:
    op.create_table(
        "feed_counts",
        sql.Column("kind", sql.Text(), nullable=False),
        sql.Column("feed", sql.Text(), nullable=False),
        sql.Column("at", sql.BigInteger(), autoincrement=False, nullable=False),
        sql.Column("partition", sql.Text(), nullable=False),
        sql.Column("events", sql.BigInteger(), nullable=False),
        sql.PrimaryKeyConstraint("kind", "feed", "at", "partition"),
    )
    op.create_index("ix_feed_counts_at", "feed_counts", ["at"])
    op.create_table(
        "feed_progress",
        sql.Column("partition", sql.Text(), nullable=False),
        sql.Column("complete_until", sql.BigInteger(), nullable=False),
        sql.PrimaryKeyConstraint("partition"),
    )
    op.create_table(
        "feed_gaps",
        sql.Column("notice_id", sql.Text(), nullable=False),
        sql.Column("kind", sql.Text(), nullable=False),
        sql.Column("feed", sql.Text(), nullable=False),
        sql.Column("since", sql.DateTime(timezone=True), nullable=False),
        sql.Column("seen_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("expected", sql.Double(), nullable=False),
        sql.Column("hourly", sql.Double(), nullable=False),
        sql.Column("urgency", sql.Integer(), nullable=False),
        sql.Column("title", sql.Text(), nullable=False),
        sql.Column("ended_at", sql.DateTime(timezone=True), nullable=True),
        sql.Column("ending", sql.Text(), nullable=False),
        sql.PrimaryKeyConstraint("notice_id"),
    )
    op.create_index("ix_feed_gaps_ended_at", "feed_gaps", ["ended_at"])
    op.create_index("ix_feed_gaps_since", "feed_gaps", ["since"])
    op.create_table(
        "heartbeats",
        sql.Column("kind", sql.Text(), nullable=False),
        sql.Column("name", sql.Text(), nullable=False),
        sql.Column("at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("lag", sql.BigInteger(), nullable=True),
        sql.Column("figures", sql.JSON(), nullable=False),
        sql.Column("trouble", sql.Text(), server_default="", nullable=False),
        sql.PrimaryKeyConstraint("kind", "name"),
    )


def _create_case_tables() -> None:
    op.create_table(
        "cases",
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("version", sql.Integer(), nullable=False),
        sql.Column("assignee", sql.Text(), server_default="", nullable=False),
        sql.Column("decision", sql.Text(), nullable=True),
        sql.Column("decided_events", sql.Integer(), server_default="0", nullable=False),
        sql.Column("decided_at", sql.DateTime(timezone=True), nullable=True),
        sql.Column("duplicate_of", sql.Text(), server_default="", nullable=False),
        sql.Column("in_progress", sql.Boolean(), server_default=sql.false(), nullable=False),
        sql.Column("responded_at", sql.DateTime(timezone=True), nullable=True),
        sql.Column("at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("by", sql.Text(), nullable=False),
        sql.PrimaryKeyConstraint("alert_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("cases_of_assignee", "cases", ["assignee"])
    op.create_table(
        "dispositions",
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("decision", sql.Text(), nullable=False),
        sql.Column("by", sql.Text(), nullable=False),
        sql.Column("why", sql.Text(), nullable=False),
        sql.Column("events", sql.Integer(), nullable=False),
        sql.Column("duplicate_of", sql.Text(), nullable=False),
        sql.Column("replaced_at", sql.DateTime(timezone=True)),
        sql.PrimaryKeyConstraint("alert_id", "at"),
    )
    op.create_index("dispositions_of_original", "dispositions", ["duplicate_of"])
    op.create_table(
        "notes",
        sql.Column("note_id", sql.Text(), nullable=False),
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("by", sql.Text(), nullable=False),
        sql.Column("text", sql.Text(), nullable=False),
        sql.PrimaryKeyConstraint("note_id"),
    )
    op.create_index("notes_of_alert", "notes", ["alert_id", "at"])
    op.create_table(
        "incident_edits",
        sql.Column("edit_id", sql.Text(), nullable=False),
        sql.Column("place", sql.Integer(), autoincrement=False, nullable=False),
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("kind", sql.Text(), nullable=False),
        sql.Column("with_alert", sql.Text(), nullable=False),
        sql.Column("at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("by", sql.Text(), nullable=False),
        sql.Column("undone", sql.Boolean(), server_default=sql.false(), nullable=False),
        sql.PrimaryKeyConstraint("edit_id", "place"),
    )
    op.create_index("incident_edits_of_alert", "incident_edits", ["alert_id"])
    op.create_index("incident_edits_with_alert", "incident_edits", ["with_alert"])
    op.create_table(
        "views",
        sql.Column("owner", sql.Text(), nullable=False),
        sql.Column("name", sql.Text(), nullable=False),
        sql.Column("query", sql.Text(), nullable=False),
        sql.PrimaryKeyConstraint("owner", "name"),
    )
    op.create_table(
        "threshold_overrides",
        sql.Column("number", AUTOINCREMENT_TYPE, nullable=False),
        sql.Column("at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("by", sql.Text(), nullable=False),
        sql.Column("why", sql.Text(), nullable=False),
        sql.Column("threshold", sql.Double(), nullable=True),
        sql.Column("quorum", sql.Integer(), nullable=True),
        sql.Column("cleared", sql.Boolean(), nullable=False),
        sql.PrimaryKeyConstraint("number"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "suppressions",
        sql.Column("suppression_id", sql.Text(), nullable=False),
        sql.Column("version", sql.Integer(), nullable=False),
        sql.Column("match", sql.JSON(), nullable=False),
        sql.Column("reason", sql.Text(), nullable=False),
        sql.Column("owner", sql.Text(), nullable=False),
        sql.Column("created_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("expires_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("ended_at", sql.DateTime(timezone=True), nullable=True),
        sql.Column("forced", sql.Text(), server_default="", nullable=False),
        sql.PrimaryKeyConstraint("suppression_id"),
    )
    op.create_table(
        "suppression_hits",
        sql.Column("suppression_id", sql.Text(), nullable=False),
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("outgrown", sql.Boolean(), server_default=sql.false(), nullable=False),
        sql.PrimaryKeyConstraint("suppression_id", "alert_id"),
    )
    op.create_index("hits_of_alert", "suppression_hits", ["alert_id"])
    op.create_table(
        "removed_records",
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("at", sql.DateTime(timezone=True), nullable=False),
        sql.PrimaryKeyConstraint("alert_id"),
    )


def _create_audit_table() -> None:
    op.create_table(
        "audit",
        sql.Column("number", AUTOINCREMENT_TYPE, nullable=False),
        sql.Column("at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("by", sql.Text(), nullable=False),
        sql.Column("action", sql.Text(), nullable=False),
        sql.Column("target", sql.Text(), nullable=False),
        sql.Column("detail", sql.JSON(), nullable=False),
        sql.PrimaryKeyConstraint("number"),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_of_target", "audit", ["target", "number"])
    if op.get_bind().dialect.name == "sqlite":
        statements = tuple(SQLITE_TRIGGER.format(verb, APPEND_ONLY) for verb in ("UPDATE", "DELETE"))
    else:
        statements = POSTGRESQL_TRIGGER
    for statement in statements:
        op.execute(statement)


def _create_delivery_tables() -> None:
    op.create_table(
        "deliveries",
        sql.Column("key", sql.Text(), nullable=False),
        sql.Column("receiver", sql.Text(), nullable=False),
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("happened", sql.Text(), nullable=False),
        sql.Column("created_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("due_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("tries", sql.Integer(), nullable=False),
        sql.Column("state", sql.Text(), nullable=False),
        sql.Column("reason", sql.Text(), nullable=False),
        sql.Column("done_at", sql.DateTime(timezone=True), nullable=True),
        sql.Column("leased_until", sql.DateTime(timezone=True), nullable=True),
        sql.Column("leased_by", sql.Text(), server_default="", nullable=False),
        sql.PrimaryKeyConstraint("key"),
    )
    op.create_index("deliveries_due", "deliveries", ["receiver", "state", "due_at"])
    op.create_index("deliveries_newest", "deliveries", ["created_at", "key"])
    op.create_index("deliveries_of_state", "deliveries", ["receiver", "state", "created_at"])
    op.create_table(
        "last_delivered",
        sql.Column("receiver", sql.Text(), nullable=False),
        sql.Column("alert_id", sql.Text(), nullable=False),
        sql.Column("events", sql.Integer(), nullable=False),
        sql.Column("decided_at", sql.DateTime(timezone=True), nullable=True),
        sql.PrimaryKeyConstraint("receiver", "alert_id"),
    )
    op.create_table(
        "receiver_positions",
        sql.Column("receiver", sql.Text(), nullable=False),
        sql.Column("position", sql.BigInteger(), nullable=False),
        sql.PrimaryKeyConstraint("receiver"),
    )


def _create_account_tables() -> None:
    op.create_table(
        "accounts",
        sql.Column("account_id", sql.Text(), nullable=False),
        sql.Column("name", sql.Text(), nullable=False),
        sql.Column("role", sql.Text(), nullable=False),
        sql.Column("password", sql.Text(), nullable=True),
        sql.Column("issuer", sql.Text(), server_default="", nullable=False),
        sql.Column("subject", sql.Text(), server_default="", nullable=False),
        sql.Column("created_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("disabled_at", sql.DateTime(timezone=True), nullable=True),
        sql.Column("last_login", sql.DateTime(timezone=True), nullable=True),
        sql.PrimaryKeyConstraint("account_id"),
    )
    op.create_index("accounts_of_name", "accounts", ["name"], unique=True)
    op.create_index(
        "accounts_of_provider",
        "accounts",
        ["issuer", "subject"],
        unique=True,
        sqlite_where=sql.text("subject != ''"),
        postgresql_where=sql.text("subject != ''"),
    )
    op.create_table(
        "sessions",
        sql.Column("digest", sql.Text(), nullable=False),
        sql.Column("session_id", sql.Text(), nullable=False),
        sql.Column("account_id", sql.Text(), nullable=False),
        sql.Column("created_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("seen_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("expires_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("address", sql.Text(), nullable=False),
        sql.Column("agent", sql.Text(), nullable=False),
        sql.Column("proof", sql.Text(), nullable=False),
        sql.Column("proven_at", sql.DateTime(timezone=True), nullable=True),
        sql.Column("challenge", sql.Text(), server_default="", nullable=False),
        sql.PrimaryKeyConstraint("digest"),
    )
    op.create_index("sessions_of_account", "sessions", ["account_id"])
    op.create_index("sessions_of_id", "sessions", ["session_id"], unique=True)
    op.create_table(
        "pending_logins",
        sql.Column("digest", sql.Text(), nullable=False),
        sql.Column("account_id", sql.Text(), nullable=False),
        sql.Column("expires_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("challenge", sql.Text(), server_default="", nullable=False),
        sql.PrimaryKeyConstraint("digest"),
    )
    op.create_index("pending_logins_of_account", "pending_logins", ["account_id"])
    op.create_table(
        "second_factors",
        sql.Column("factor_id", sql.Text(), nullable=False),
        sql.Column("account_id", sql.Text(), nullable=False),
        sql.Column("kind", sql.Text(), nullable=False),
        sql.Column("label", sql.Text(), nullable=False),
        sql.Column("secret", sql.Text(), nullable=False),
        sql.Column("credential", sql.Text(), server_default="", nullable=False),
        sql.Column("counter", sql.BigInteger(), nullable=False),
        sql.Column("created_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("last_used", sql.DateTime(timezone=True), nullable=True),
        sql.PrimaryKeyConstraint("factor_id"),
    )
    op.create_index("second_factors_of_account", "second_factors", ["account_id"])
    op.create_table(
        "known_browsers",
        sql.Column("digest", sql.Text(), nullable=False),
        sql.Column("account_id", sql.Text(), nullable=False),
        sql.Column("seen_at", sql.DateTime(timezone=True), nullable=False),
        sql.PrimaryKeyConstraint("digest"),
    )
    op.create_index("known_browsers_of_account", "known_browsers", ["account_id"])
    op.create_table(
        "tokens",
        sql.Column("token_id", sql.Text(), nullable=False),
        sql.Column("digest", sql.Text(), nullable=False),
        sql.Column("account_id", sql.Text(), nullable=False),
        sql.Column("label", sql.Text(), nullable=False),
        sql.Column("scopes", sql.JSON(), nullable=False),
        sql.Column("created_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("expires_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("last_used", sql.DateTime(timezone=True), nullable=True),
        sql.Column("revoked_at", sql.DateTime(timezone=True), nullable=True),
        sql.PrimaryKeyConstraint("token_id"),
    )
    op.create_index("tokens_of_account", "tokens", ["account_id"])
    op.create_index("tokens_of_digest", "tokens", ["digest"], unique=True)
    op.create_table(
        "invitations",
        sql.Column("digest", sql.Text(), nullable=False),
        sql.Column("name", sql.Text(), nullable=False),
        sql.Column("expires_at", sql.DateTime(timezone=True), nullable=False),
        sql.PrimaryKeyConstraint("digest"),
    )
    op.create_index("invitations_of_name", "invitations", ["name"])
    op.create_table(
        "login_attempts",
        sql.Column("counter", sql.Text(), nullable=False),
        sql.Column("failures", sql.Integer(), nullable=False),
        sql.Column("begun_at", sql.DateTime(timezone=True), nullable=False),
        sql.Column("at", sql.DateTime(timezone=True), nullable=False),
        sql.PrimaryKeyConstraint("counter"),
    )
    op.create_index("login_attempts_begun", "login_attempts", ["begun_at"])
