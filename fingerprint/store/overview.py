"""Figures for a lead, read from alerts, cases and suppressions (`core.overview`).

Example:
    >>> store.overview.figures(now - timedelta(days=28), now, response_target=14_400, close_target=86_400).total.decided
    17
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sql

from fingerprint.core.errors import FingerprintError
from fingerprint.core.overview import AlertTimes, Overview, summarise
from fingerprint.store.database import Repository, reads
from fingerprint.store.query_conditions import CLOSED
from fingerprint.store.schema import alert_events, alerts, cases, id_batches, suppression_hits, suppressions
from fingerprint.store.suppression_hits import is_hidden

MAX_ALERTS = 200_000  # of one overview: all are read into memory
MAX_LED_ALERTS = 5_000  # newest decided alerts whose leading detector is determined from their events' scores
_CAME = sql.func.coalesce(alerts.c.stored_at, alerts.c.last_event_time, type_=alerts.c.stored_at.type)
_COLUMNS = (
    alerts.c.alert_id,
    alerts.c.urgency_shown,
    _CAME,
    cases.c.responded_at,
    sql.case((CLOSED, cases.c.decided_at)),
    sql.case((CLOSED, cases.c.decision)),
)
_WITH_CASES = alerts.outerjoin(cases, cases.c.alert_id == alerts.c.alert_id)


class SqlOverviewRepository(Repository):
    """Figures over the alerts received in a span of time."""

    @reads
    def figures(
        self,
        connection: sql.Connection,
        since: datetime,
        until: datetime,
        response_target: float,
        close_target: float,
    ) -> Overview:
        """Return the figures of the alerts received from `since` on and before `until`; targets are in seconds.

        Open alerts that a suppression hides are left out, because they need no answer.
        Raise FingerprintError for more than MAX_ALERTS.
        """
        counted = CLOSED | ~is_hidden(self._session.now())
        query = sql.select(*_COLUMNS).select_from(_WITH_CASES).where(counted)
        came = query.where(since <= alerts.c.stored_at, alerts.c.stored_at < until).limit(MAX_ALERTS + 1)
        found = [AlertTimes(*row) for row in connection.execute(came)]
        if len(found) > MAX_ALERTS:
            raise FingerprintError(f"more than {MAX_ALERTS:,} alerts came in that time: choose fewer days")
        decided = [each for each in found if each.decision is not None]
        decided.sort(key=lambda each: (each.stored_at, each.alert_id), reverse=True)
        led = _leading_detectors(connection, [each.alert_id for each in decided[:MAX_LED_ALERTS]])
        hidden = _hidden_alerts(connection, since, until)
        return summarise(found, since, until, response_target, close_target, led, hidden)


def _leading_detectors(connection: sql.Connection, alert_ids: Sequence[str]) -> dict[str, str]:
    """Return the detector that gave each alert its highest z."""
    best: dict[str, tuple[float, str]] = {}
    for batch in id_batches(alert_ids):
        query = sql.select(alert_events.c.alert_id, alert_events.c.scores)
        for alert_id, scores in connection.execute(query.where(alert_events.c.alert_id.in_(batch))):
            for name, z in scores.items():
                if z is not None:
                    best[alert_id] = max(best.get(alert_id, (z, name)), (z, name))
    return {alert_id: name for alert_id, (_, name) in best.items()}


def _hidden_alerts(
    connection: sql.Connection, since: datetime, until: datetime
) -> dict[str, list[AlertTimes]]:
    """Return the alerts received in the span that each suppression matched, by the suppression's reason and id."""
    found: dict[str, list[AlertTimes]] = defaultdict(list)
    query: sql.Select[Any] = (
        sql.select(suppressions.c.suppression_id, suppressions.c.reason, *_COLUMNS)
        .select_from(
            suppression_hits.join(
                suppressions, suppressions.c.suppression_id == suppression_hits.c.suppression_id
            )
            .join(alerts, alerts.c.alert_id == suppression_hits.c.alert_id)
            .outerjoin(cases, cases.c.alert_id == alerts.c.alert_id)
        )
        .where(
            since <= _CAME, until > _CAME
        )  # deliberately without the index of times: matched alerts are few
        .limit(MAX_ALERTS)
    )
    for suppression_id, reason, *values in connection.execute(query):
        found[f"{reason[:120]} ({suppression_id[:8]})"].append(AlertTimes(*values))
    return found
