"""Keep beside each vote how far its event reaches, and find the votes that reach furthest by an index."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

revision, down_revision = "0003", "0002"


def upgrade() -> None:
    """Add column and index. The votes of before have no reach, and neither database rewrites them for it."""
    op.add_column("votes", sql.Column("reach", sql.Double()))
    has_reach = sql.text("reach IS NOT NULL")
    op.create_index("votes_by_reach", "votes", ["reach"], sqlite_where=has_reach, postgresql_where=has_reach)
    op.drop_index("votes_by_strength", "votes")
