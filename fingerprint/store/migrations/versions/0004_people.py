"""Who may work at the desk: persons, their sessions and tokens, invitations, and logins that failed."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

from fingerprint.store.schema import FiniteJson, UtcDateTime, required_text, required_time

revision, down_revision = "0004", "0003"


def upgrade() -> None:
    _persons()
    _secrets()
    op.create_table(
        "attempts", required_text("attempt_id", primary_key=True), required_text("of"), required_time("at")
    )
    op.create_index("attempts_of", "attempts", ["of", "at"])


def _persons() -> None:
    op.create_table(
        "persons",
        required_text("person_id", primary_key=True),
        required_text("name"),
        required_text("role"),
        sql.Column("password", sql.Text),
        required_text("issuer", server_default=""),
        required_text("subject", server_default=""),
        required_time("created_at"),
        sql.Column("disabled_at", UtcDateTime),
        sql.Column("last_login", UtcDateTime),
    )
    op.create_index("persons_of_name", "persons", ["name"], unique=True)
    vouched = sql.text("subject <> ''")
    op.create_index(
        "persons_of_provider",
        "persons",
        ["issuer", "subject"],
        unique=True,
        sqlite_where=vouched,
        postgresql_where=vouched,
    )


def _secrets() -> None:
    whose, until = required_text("person_id"), required_time("expires_at")
    op.create_table(
        "sessions",
        required_text("digest", primary_key=True),
        whose,
        required_time("created_at"),
        required_time("seen_at"),
        until,
    )
    op.create_index("sessions_of_person", "sessions", ["person_id"])
    op.create_table(
        "tokens",
        required_text("token_id", primary_key=True),
        required_text("digest"),
        required_text("person_id"),
        required_text("label"),
        sql.Column("scopes", FiniteJson, nullable=False),
        required_time("created_at"),
        required_time("expires_at"),
        sql.Column("last_used", UtcDateTime),
        sql.Column("revoked_at", UtcDateTime),
    )
    op.create_index("tokens_of_person", "tokens", ["person_id"])
    op.create_index("tokens_of_digest", "tokens", ["digest"], unique=True)
    op.create_table(
        "invitations",
        required_text("digest", primary_key=True),
        required_text("name"),
        required_time("expires_at"),
    )
    op.create_index("invitations_of_name", "invitations", ["name"])
