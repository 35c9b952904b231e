"""Second factors, sessions that can be listed, browsers that are known, and failed logins counted by whom and from where.

Sessions begun before end: nobody knows from where they came. Failed logins counted before are forgotten.
"""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

from fingerprint.store.schema import Utc, text, when

revision, down_revision = "0010", "0009"


def upgrade() -> None:
    op.drop_table("attempts")
    op.drop_table("sessions")
    _sessions()
    _factors()
    op.create_table(
        "attempts",
        text("of", primary_key=True),
        sql.Column("failures", sql.Integer, nullable=False),
        when("begun_at"),
        when("at"),
    )
    op.create_index("attempts_begun", "attempts", ["begun_at"])


def _sessions() -> None:
    op.create_table(
        "sessions",
        text("digest", primary_key=True),
        text("session_id"),
        text("person_id"),
        when("created_at"),
        when("seen_at"),
        when("expires_at"),
        *(text(name) for name in ("address", "agent", "proof")),
        sql.Column("proven_at", Utc),
        text("challenge", server_default=""),
    )
    op.create_index("sessions_of_person", "sessions", ["person_id"])
    op.create_index("sessions_of_id", "sessions", ["session_id"], unique=True)
    op.create_table(
        "logins",
        text("digest", primary_key=True),
        text("person_id"),
        when("expires_at"),
        text("challenge", server_default=""),
    )
    op.create_index("logins_of_person", "logins", ["person_id"])


def _factors() -> None:
    op.create_table(
        "factors",
        text("factor_id", primary_key=True),
        *(text(name) for name in ("person_id", "kind", "label", "secret")),
        text("credential", server_default=""),
        sql.Column("counter", sql.BigInteger, nullable=False),
        when("created_at"),
        sql.Column("last_used", Utc),
    )
    op.create_index("factors_of_person", "factors", ["person_id"])
    op.create_table("devices", text("digest", primary_key=True), text("person_id"), when("seen_at"))
    op.create_index("devices_of_person", "devices", ["person_id"])
