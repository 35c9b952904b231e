"""The last status of each running program.

Example:
    >>> store.heartbeats.save(ProgramStatus("stream", "scorer-0", now, lag=120, figures={"dead": 3}))
    >>> [status.name for status in store.heartbeats.recent()]
    ['scorer-0']
"""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sql

from fingerprint.core.case import ProgramStatus
from fingerprint.core.sanitize import storable
from fingerprint.store.database import Locking, Repository, reads, writes
from fingerprint.store.schema import heartbeats, replace_into

# After this time a silent program is no longer shown, and then removed.
HEARTBEAT_RETENTION = timedelta(days=7)


class SqlHeartbeatRepository(Repository):
    """Statuses, one row a program, overwritten by each heartbeat."""

    @writes(Locking.SERIALIZED)
    def save(self, connection: sql.Connection, status: ProgramStatus) -> None:
        """Save a program's status over its last one. Other programs' rows are not removed: this program's clock may be wrong."""
        row = {name: storable(getattr(status, name)) for name in ProgramStatus.__slots__}
        connection.execute(replace_into(connection, heartbeats).values(**row))

    @reads
    def recent(self, connection: sql.Connection) -> list[ProgramStatus]:
        """Return the last statuses, by kind and name."""
        since = self._session.now() - HEARTBEAT_RETENTION
        query = sql.select(heartbeats).where(heartbeats.c.at >= since)
        rows = connection.execute(query.order_by(heartbeats.c.kind, heartbeats.c.name)).mappings()
        return [ProgramStatus(**row) for row in rows]


def remove_silent(connection: sql.Connection, now: datetime) -> None:
    """Remove programs that have been silent for HEARTBEAT_RETENTION. The daily retention calls it, so one clock decides."""
    connection.execute(sql.delete(heartbeats).where(heartbeats.c.at < now - HEARTBEAT_RETENTION))
