"""Labels for training: flagged events, the decisions on them, and confirmed attacks.

Example:
    >>> for table in store.feedback.flagged_events(since, until):      # event_id, event_time, entity, label
    ...     table["label"].unique()
    ['open', 'true_positive']

The label of an event is the decision on its alert (`true_positive`, `benign`, `false_positive`), `open` while there is none, or
`vote` where a detector voted on it. An event comes once for each alert and each vote it is in.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql

from fingerprint.store.cases import read_current_decisions, read_current_dispositions
from fingerprint.store.database import Repository, reads
from fingerprint.store.schema import alert_events, alerts, dispositions, votes

if TYPE_CHECKING:
    import pandas as pd

FETCH_ROWS = 50_000  # of one table
MAX_ALERTS = 200  # confirmed attacks, the newest
MAX_EVENTS_PER_ALERT = 100  # of a confirmed attack, the first


class SqlFeedbackRepository(Repository):
    """Queries of training and promotion over alerts, votes and decisions."""

    def flagged_events(self, since: datetime, until: datetime) -> Iterator[pd.DataFrame]:
        """Yield tables of events in alerts, then of events with a vote, from `since` on and before `until`.

        The transaction stays open while they are read.
        """
        from fingerprint.detection.detectors import (  # late: few programs train
            available_detectors,
            interval_detectors,
        )

        with self._session.reading() as connection:
            decisions = read_current_decisions(connection)
            events = _select_in_range(alert_events, alert_events.c.alert_id, since, until)
            for table in _read_frames(connection, events):
                yield table.assign(label=table["label"].map(decisions).fillna("open"))
            single = _select_in_range(votes, sql.literal("vote"), since, until)
            of_intervals = interval_detectors(available_detectors())  # the ids of their votes name no event
            is_event_vote = votes.c.detector.not_in(of_intervals)
            yield from _read_frames(connection, single.where(votes.c.vote, is_event_vote))

    @reads
    def decided_entities(self, connection: sql.Connection, until: datetime) -> pd.DataFrame:
        """Return the entities of decided alerts, a row for each alert and entity.

        Columns: alert (a duplicate's original), principal, entity, event_time (of its newest event before `until`), decision.
        """
        decided = read_current_dispositions(connection)
        events = alert_events.c
        has_disposition = events.alert_id.in_(sql.select(dispositions.c.alert_id).distinct())
        query = (
            sql.select(events.alert_id, alerts.c.principal, events.entity, sql.func.max(events.event_time))
            .join(alerts, alerts.c.alert_id == events.alert_id)
            .where(has_disposition, events.event_time < until)
            .group_by(events.alert_id, alerts.c.principal, events.entity)
            .order_by(events.alert_id, events.entity)
        )
        rows = [row for row in connection.execute(query).all() if row[0] in decided]
        from fingerprint.store import tables

        return tables.decided_entity_table(rows, decided)

    @reads
    def confirmed_attacks(self, connection: sql.Connection) -> dict[str, list[bytes]]:
        """Return the records of confirmed attacks by alert, the newest first: of each its first events that are stored."""
        decisions = read_current_decisions(connection)
        confirmed = {alert_id for alert_id, decision in decisions.items() if decision == "true_positive"}
        if not confirmed:
            return {}
        newest = sql.select(alerts.c.alert_id).order_by(alerts.c.last_event_time.desc(), alerts.c.alert_id)
        ids = [alert_id for alert_id in connection.scalars(newest) if alert_id in confirmed][:MAX_ALERTS]
        records = ((alert_id, _read_first_records(connection, alert_id)) for alert_id in ids)
        return {alert_id: some for alert_id, some in records if some}


def _read_first_records(connection: sql.Connection, alert_id: str) -> list[bytes]:
    """Return the first MAX_EVENTS_PER_ALERT records of an alert that are stored.

    The database leaves out the others: an alert may have thousands, and an attacker chooses their length.
    """
    events = alert_events.c
    query = sql.select(events.raw).where(events.alert_id == alert_id, events.raw != "")
    first = query.order_by(events.event_time, events.event_id).limit(MAX_EVENTS_PER_ALERT)
    return [raw.encode(errors="replace") for raw in connection.scalars(first)]


def _select_in_range(
    table: sql.Table, label: sql.ColumnElement[Any], since: datetime, until: datetime
) -> sql.Select[Any]:
    time = table.c.event_time
    return sql.select(table.c.event_id, time, table.c.entity, label).where(time >= since, time < until)


def _read_frames(connection: sql.Connection, query: sql.Select[Any]) -> Iterator[pd.DataFrame]:
    from fingerprint.store import tables

    for rows in connection.execution_options(yield_per=FETCH_ROWS).execute(query).partitions():
        yield tables.flagged_event_table(rows)
