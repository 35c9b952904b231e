"""Single votes of detectors on events and intervals.

Example:
    >>> store.votes.read(principal="123456789012:role/ci", limit=100)[["event_time", "detector", "z", "vote"]]
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql

from fingerprint.core.sanitize import storable
from fingerprint.store import page_cursor
from fingerprint.store.database import Repository, reads
from fingerprint.store.schema import VOTE_COLUMNS, alerts, id_batches, votes

if TYPE_CHECKING:
    import pandas as pd


# An event or interval has one vote of each detector.
ORDER: page_cursor.Order = ((votes.c.event_time, False), (votes.c.event_id, False), (votes.c.detector, False))
ROWS_AT_ONCE = 1_000  # rows fetched at once from a result that may not be read to its end


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
        order = [column for column, _ in ORDER]
        query = _select_votes(principal, since).limit(limit)
        query = query.order_by(*(column.desc() if newest else column for column in order))
        rows = connection.execute(query).all()
        from fingerprint.store import tables

        return tables.vote_table(rows[::-1] if newest else rows)

    @reads
    def page(
        self,
        connection: sql.Connection,
        principal: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        size: int = 1_000,
        cursor: str | None = None,
    ) -> tuple[pd.DataFrame, str | None]:
        """Return a page of votes from `since` on and before `until`, the oldest first, and the cursor of the next page.

        Raise FingerprintError for a cursor of another query.
        """
        query = _select_votes(principal, since).order_by(*page_cursor.order_by(ORDER))
        query = query if until is None else query.where(votes.c.event_time < until)
        search = (principal, since, until)
        if cursor is not None:
            query = query.where(page_cursor.after(ORDER, page_cursor.decode_cursor(cursor, ORDER, search)))
        rows = connection.execute(query.limit(size + 1)).all()
        following = None
        if len(rows) > size:
            last = rows[size - 1]._mapping
            following = page_cursor.encode_cursor((last[column.name] for column, _ in ORDER), search)
        from fingerprint.store import tables

        return tables.vote_table(rows[:size]), following

    @reads
    def nearest(
        self,
        connection: sql.Connection,
        since: datetime,
        least: float,
        limit: int,
        principals: Sequence[str] | None = None,
        related: bool = True,
    ) -> pd.DataFrame:
        """Return at most `limit` votes with a reach of at least `least`, the highest first, then other detectors' related votes.

        The former are on events at `since` or later of these `principals` (None: of all), outside the times of the principal's
        alerts. The latter are on the same events, or for intervals of the principals; without `related` they are left out.
        """
        reach = votes.c.reach if principals is None else _REACH_OF_PRINCIPALS
        found = _select_votes(None, since).where(reach >= least)
        spans = sql.select(alerts.c.principal, alerts.c.first_event_time, alerts.c.last_event_time)
        spans = spans.where(alerts.c.last_event_time >= since)
        if principals is not None:
            names = [storable(name) for name in principals]
            found, spans = (
                found.where(votes.c.principal.in_(names)),
                spans.where(alerts.c.principal.in_(names)),
            )
        in_alert = _TimesOfAlerts(connection.execute(spans.order_by(alerts.c.first_event_time)))
        ordered = found.order_by(votes.c.reach.desc(), votes.c.event_id)
        with connection.execute(ordered.execution_options(yield_per=ROWS_AT_ONCE)) as result:
            outside = (row for row in result if (row.principal, row.event_time) not in in_alert)
            rows = [*islice(outside, limit)]
        if related:
            beside = _other_votes_on_events([row.event_id for row in rows])
            of_intervals = _votes_for_intervals(sorted({row.principal for row in rows}), since)
            rows += [row for query in (*beside, *of_intervals) for row in connection.execute(query)]
        from fingerprint.store import tables

        return tables.vote_table(rows)

    @reads
    def oldest_time(self, connection: sql.Connection) -> datetime | None:
        """Return the time of the oldest vote; earlier flagged events are unknown."""
        oldest: datetime | None = connection.scalar(sql.select(sql.func.min(votes.c.event_time)))
        return oldest

    @reads
    def newest_time(self, connection: sql.Connection) -> datetime | None:
        """Return the time of the newest vote."""
        newest: datetime | None = connection.scalar(sql.select(sql.func.max(votes.c.event_time)))
        return newest


# With the plain columns, SQLite would look up all votes with a reach, or of the detector, instead of those of the principals.
_REACH_OF_PRINCIPALS, _DETECTOR_OF_PRINCIPALS = votes.c.reach + 0, votes.c.detector.concat("")


class _TimesOfAlerts:
    """The times of the alerts of each principal, to test whether a principal has an alert at a time.

    A database would compare each vote with each alert of its principal: that took seconds for 17,000 votes and 1,150 alerts.
    """

    def __init__(self, spans: Iterable[Any]) -> None:
        """Store each principal's beginnings of alerts in order, with the latest end up to each: alerts may overlap."""
        self._begun: defaultdict[str, list[datetime]] = defaultdict(list)
        self._ended: defaultdict[str, list[datetime]] = defaultdict(list)
        for principal, first, last in spans:
            ended = self._ended[principal]
            self._begun[principal].append(first)
            ended.append(max(last, ended[-1]) if ended else last)

    def __contains__(self, place: tuple[str, datetime]) -> bool:
        principal, at = place
        begun = bisect_right(self._begun[principal], at) if principal in self._begun else 0
        return begun > 0 and at <= self._ended[principal][begun - 1]


def _other_votes_on_events(event_ids: Sequence[str]) -> Iterator[sql.Select[Any]]:
    """Yield queries for the votes on some events by detectors whose votes have no reach."""
    for ids in id_batches(event_ids):
        yield _select_votes(None, None).where(votes.c.event_id.in_(ids), votes.c.reach.is_(None))


def _votes_for_intervals(principals: Sequence[str], since: datetime) -> Iterator[sql.Select[Any]]:
    """Yield queries for the votes of interval detectors on intervals of some principals."""
    from fingerprint.detection.detectors import (  # late: the queue needs no detector
        available_detectors,
        interval_detectors,
    )

    given = _DETECTOR_OF_PRINCIPALS.in_(interval_detectors(available_detectors())) & votes.c.vote
    for names in id_batches(principals):
        yield _select_votes(None, since).where(votes.c.principal.in_(names), given)


def _select_votes(principal: str | None, since: datetime | None) -> sql.Select[Any]:
    """Return a query for the votes of a principal, or all, from `since` on."""
    query = sql.select(*(votes.c[name] for name in VOTE_COLUMNS))
    query = query if principal is None else query.where(votes.c.principal == storable(principal))
    return query if since is None else query.where(votes.c.event_time >= since)
