"""Votes say whether no other detector had an opinion."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

revision, down_revision = "0011", "0010"


def upgrade() -> None:
    op.add_column("votes", sql.Column("alone", sql.Boolean, nullable=False, server_default=sql.false()))
