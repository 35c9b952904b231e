"""Single votes of detectors on events and intervals.

Example:
    >>> store.votes.read(principal="123456789012:role/ci", limit=100)[["event_time", "detector", "z", "vote"]]
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sql

from fingerprint.core.sanitize import storable
from fingerprint.store.database import Repository, reads
from fingerprint.store.schema import VOTE_COLUMNS, votes

if TYPE_CHECKING:
    import pandas as pd


class SqlVoteRepository(Repository):
    """Votes, which alerts save together with their evidence (`SqlAlertRepository.save`)."""

    @reads
    def read(
        self,
        connection: sql.Connection,
        principal: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> pd.DataFrame:
        """Return votes, the oldest first, with the fields of Vote as columns.

        `limit` keeps the oldest, or the `newest`; `event_time` is UTC.
        """
        order = (votes.c.event_time, votes.c.event_id, votes.c.detector)
        query = sql.select(*(votes.c[name] for name in VOTE_COLUMNS))
        query = query.order_by(*(column.desc() if newest else column for column in order)).limit(limit)
        query = query if principal is None else query.where(votes.c.principal == storable(principal))
        query = query if since is None else query.where(votes.c.event_time >= since)
        rows = connection.execute(query).all()
        from fingerprint.store import tables

        return tables.vote_table(rows[::-1] if newest else rows)

    @reads
    def oldest_time(self, connection: sql.Connection) -> datetime | None:
        """Return the time of the oldest vote; what was flagged before is unknown."""
        oldest: datetime | None = connection.scalar(sql.select(sql.func.min(votes.c.event_time)))
        return oldest

    @reads
    def newest_time(self, connection: sql.Connection) -> datetime | None:
        """Return the time of the newest vote."""
        newest: datetime | None = connection.scalar(sql.select(sql.func.max(votes.c.event_time)))
        return newest
