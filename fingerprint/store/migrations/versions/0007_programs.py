"""Programs that say how they are."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

from fingerprint.store.schema import FiniteJson, required_text, required_time

revision, down_revision = "0007", "0006"


def upgrade() -> None:
    op.create_table(
        "programs",
        required_text("kind", primary_key=True),
        required_text("name", primary_key=True),
        required_time("at"),
        sql.Column("lag", sql.BigInteger),
        sql.Column("figures", FiniteJson, nullable=False),
        required_text("trouble", server_default=""),
    )
