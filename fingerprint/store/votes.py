"""Single votes of detectors on events and intervals.

Example:
    >>> store.votes.read(principal="123456789012:role/ci", limit=100)[["event_time", "detector", "z", "vote"]]
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pandas as pd
import sqlalchemy as sql

from fingerprint.core.alert import Vote
from fingerprint.core.ports import VoteTable
from fingerprint.core.sanitize import storable
from fingerprint.store.database import Repository, reads
from fingerprint.store.schema import STORED_AT, Row, index_key, votes

_COLUMNS = tuple(column.name for column in votes.columns if column.name != STORED_AT)
_BOOLEAN_COLUMNS, _NUMBER_COLUMNS = ("vote", "alone"), ("z", "threshold")


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
        query = sql.select(*(votes.c[name] for name in _COLUMNS))
        query = query.order_by(*(column.desc() if newest else column for column in order)).limit(limit)
        query = query if principal is None else query.where(votes.c.principal == storable(principal))
        query = query if since is None else query.where(votes.c.event_time >= since)
        rows = connection.execute(query).all()
        frame = pd.DataFrame(rows[::-1] if newest else rows, columns=list(_COLUMNS))
        times = pd.to_datetime(frame["event_time"], utc=True).astype("datetime64[us, UTC]")
        return frame.assign(event_time=times)

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


def vote_rows(table: VoteTable) -> list[Row]:
    """Return a row for each vote with an opinion, the last one where event and detector repeat."""
    frame = table if isinstance(table, pd.DataFrame) else _to_frame(table)
    frame = frame.loc[frame["z"].notna(), list(_COLUMNS)]
    frame = frame.drop_duplicates(["event_id", "detector"], keep="last")
    columns = [_column_values(frame[name]) for name in _COLUMNS]
    return [dict(zip(_COLUMNS, values, strict=True)) for values in zip(*columns, strict=True)]


def _to_frame(table: Sequence[Vote]) -> pd.DataFrame:
    """Return object columns: pandas' own strings take no lone surrogates."""
    columns = {name: [getattr(vote, name) for vote in table] for name in _COLUMNS}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def _column_values(values: pd.Series) -> list[Any]:
    """Return a column as Python values: texts cleaned once per distinct value, None where one is missing."""
    if values.name == "event_time":
        return list(pd.to_datetime(values, utc=True).dt.to_pydatetime())
    if values.name in _BOOLEAN_COLUMNS:
        return values.astype(bool).to_list()
    if values.name in _NUMBER_COLUMNS:
        return values.astype(float).to_list()
    codes, distinct = pd.factorize(values)
    clean = index_key if values.name == "event_id" else storable
    cleaned = [clean(str(value)) for value in distinct] + [None]
    return [cleaned[code] for code in codes]
