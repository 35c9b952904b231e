"""When the desk stored what it keeps for a while: by that it is removed, not by what a record says of its time."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

from fingerprint.store.schema import UtcDateTime

revision, down_revision = "0009", "0008"

STORED = {
    "alert_events": "event_time",
    "votes": "event_time",
    "hops": "at",
}  # and the best that is known of older rows


def upgrade() -> None:
    for name, known in STORED.items():
        op.add_column(name, sql.Column("stored_at", UtcDateTime))
        table = sql.table(name, sql.column("stored_at"), sql.column(known))
        op.execute(sql.update(table).values(stored_at=table.c[known]))
    for name in ("votes", "hops"):
        op.create_index(f"ix_{name}_stored_at", name, ["stored_at"])
