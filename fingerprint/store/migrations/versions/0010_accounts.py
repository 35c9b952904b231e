"""Second factors, sessions that can be listed, browsers that are known, and failed logins counted by whom and from where.

Sessions begun before end: nobody knows from where they came. Failed logins counted before are forgotten.
"""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

from fingerprint.store.schema import UtcDateTime, required_text, required_time

revision, down_revision = "0010", "0009"


def upgrade() -> None:
    op.drop_table("attempts")
    op.drop_table("sessions")
    _sessions()
    _factors()
    op.create_table(
        "attempts",
        required_text("of", primary_key=True),
        sql.Column("failures", sql.Integer, nullable=False),
        required_time("begun_at"),
        required_time("at"),
    )
    op.create_index("attempts_begun", "attempts", ["begun_at"])


def _sessions() -> None:
    op.create_table(
        "sessions",
        required_text("digest", primary_key=True),
        required_text("session_id"),
        required_text("person_id"),
        required_time("created_at"),
        required_time("seen_at"),
        required_time("expires_at"),
        *(required_text(name) for name in ("address", "agent", "proof")),
        sql.Column("proven_at", UtcDateTime),
        required_text("challenge", server_default=""),
    )
    op.create_index("sessions_of_person", "sessions", ["person_id"])
    op.create_index("sessions_of_id", "sessions", ["session_id"], unique=True)
    op.create_table(
        "logins",
        required_text("digest", primary_key=True),
        required_text("person_id"),
        required_time("expires_at"),
        required_text("challenge", server_default=""),
    )
    op.create_index("logins_of_person", "logins", ["person_id"])


def _factors() -> None:
    op.create_table(
        "factors",
        required_text("factor_id", primary_key=True),
        *(required_text(name) for name in ("person_id", "kind", "label", "secret")),
        required_text("credential", server_default=""),
        sql.Column("counter", sql.BigInteger, nullable=False),
        required_time("created_at"),
        sql.Column("last_used", UtcDateTime),
    )
    op.create_index("factors_of_person", "factors", ["person_id"])
    op.create_table(
        "devices",
        required_text("digest", primary_key=True),
        required_text("person_id"),
        required_time("seen_at"),
    )
    op.create_index("devices_of_person", "devices", ["person_id"])
