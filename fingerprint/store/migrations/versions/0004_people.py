"""Who may work at the desk: persons, their sessions and tokens, invitations, and logins that failed."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

from fingerprint.store.schema import Json, Utc, text, when

revision, down_revision = "0004", "0003"


def upgrade() -> None:
    _persons()
    _secrets()
    op.create_table("attempts", text("attempt_id", primary_key=True), text("of"), when("at"))
    op.create_index("attempts_of", "attempts", ["of", "at"])


def _persons() -> None:
    op.create_table(
        "persons",
        text("person_id", primary_key=True),
        text("name"),
        text("role"),
        sql.Column("password", sql.Text),
        text("issuer", server_default=""),
        text("subject", server_default=""),
        when("created_at"),
        sql.Column("disabled_at", Utc),
        sql.Column("last_login", Utc),
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
    whose, until = text("person_id"), when("expires_at")
    op.create_table(
        "sessions", text("digest", primary_key=True), whose, when("created_at"), when("seen_at"), until
    )
    op.create_index("sessions_of_person", "sessions", ["person_id"])
    op.create_table(
        "tokens",
        text("token_id", primary_key=True),
        text("digest"),
        text("person_id"),
        text("label"),
        sql.Column("scopes", Json, nullable=False),
        when("created_at"),
        when("expires_at"),
        sql.Column("last_used", Utc),
        sql.Column("revoked_at", Utc),
    )
    op.create_index("tokens_of_person", "tokens", ["person_id"])
    op.create_index("tokens_of_digest", "tokens", ["digest"], unique=True)
    op.create_table("invitations", text("digest", primary_key=True), text("name"), when("expires_at"))
    op.create_index("invitations_of_name", "invitations", ["name"])
