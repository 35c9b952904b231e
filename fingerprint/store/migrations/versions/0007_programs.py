"""Programs that say how they are."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

from fingerprint.store.schema import Json, text, when

revision, down_revision = "0007", "0006"


def upgrade() -> None:
    op.create_table(
        "programs",
        text("kind", primary_key=True),
        text("name", primary_key=True),
        when("at"),
        sql.Column("lag", sql.BigInteger),
        sql.Column("figures", Json, nullable=False),
        text("trouble", server_default=""),
    )
