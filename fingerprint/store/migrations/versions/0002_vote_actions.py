"""Keep the action of the event beside each vote, and find the strongest votes of a detector by an index."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

revision, down_revision = "0002", "0001"


def upgrade() -> None:
    """Add column and index. The votes of before have no action, and neither database rewrites them for it."""
    op.add_column("votes", sql.Column("action", sql.Text(), server_default="", nullable=False))
    op.create_index("votes_by_strength", "votes", ["detector", "z"])
