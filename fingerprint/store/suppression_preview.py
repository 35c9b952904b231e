"""What a suppression would hide of the alerts that lie on the desk, before anybody makes it.

Example:
    >>> with engine.connect() as connection:
    ...     would = preview(connection, Match(service="glue"), limit=20, now=now)
    >>> would.alerts, would.open, would.urgent, would.critical, would.confirmed
    (14, 9, 0, 0, 0)

Urgent and critical is what was so by itself: that many others share it is no reason to hide it, too. Confirmed is what anybody
judged a true positive, or a duplicate of one, also where it has grown since. What would hide critical or confirmed ones is
refused unless it is forced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sql

from fingerprint.alerting.suppression import SuppressionMatcher
from fingerprint.core.alert import MINIMUM_URGENCY, Decision, FingerprintError
from fingerprint.core.case import SuppressionMatch, SuppressionPreview
from fingerprint.store import dispositions, queue_rows, suppressions
from fingerprint.store.filters import ALERTS_WITH_CASES, OPEN
from fingerprint.store.queue_tables import cases
from fingerprint.store.schema import alerts

MAX_IDS_PER_QUERY = 500  # alerts of one IN (...)


class HiddenAlert(NamedTuple):
    """An alert that would be hidden."""

    urgency: int
    first_event_time: datetime
    alert_id: str
    is_open: bool
    decision: Decision | None


def build_preview(
    connection: sql.Connection, match: SuppressionMatch, limit: int, now: datetime
) -> SuppressionPreview:
    """All of them counted, the most urgent shown. FingerprintError for a match that asks nothing or cannot be read."""
    found = sorted(
        _read_hidden_alerts(
            connection, suppressions.find_matching_alerts(connection, SuppressionMatcher(match))
        ),
        key=_sort_key,
    )
    standing = dispositions.read_current_decisions(connection)
    attacks = [each for each in found if suppressions.ATTACK in (each.decision, standing.get(each.alert_id))]
    shown = queue_rows.read_queue_rows_by_id(
        connection, [each.alert_id for each in found[: max(0, limit)]], now
    )
    return SuppressionPreview(
        alerts=len(found),
        open=sum(each.is_open for each in found),
        urgent=sum(each.urgency >= MINIMUM_URGENCY["high"] for each in found),
        critical=sum(each.urgency >= MINIMUM_URGENCY["critical"] for each in found),
        confirmed=len(attacks),
        rows=tuple(shown),
    )


def check_suppression_safe(connection: sql.Connection, match: SuppressionMatch, now: datetime) -> None:
    """FingerprintError for a match that would hide confirmed attacks or critical alerts."""
    would = build_preview(connection, match, 0, now)
    if would.critical or would.confirmed:
        raise FingerprintError(
            f"of the {would.alerts:,} alerts that it would hide {would.critical:,} are critical and {would.confirmed:,} "
            "confirmed attacks: make it narrower, or force it and say why (--force REASON)"
        )


def _read_hidden_alerts(connection: sql.Connection, alert_ids: Sequence[str]) -> Iterator[HiddenAlert]:
    columns = (alerts.c.urgency, alerts.c.first_event_time, alerts.c.alert_id, OPEN, cases.c.decision)
    query = sql.select(*columns).select_from(ALERTS_WITH_CASES)
    for start in range(0, len(alert_ids), MAX_IDS_PER_QUERY):
        part = query.where(alerts.c.alert_id.in_(alert_ids[start : start + MAX_IDS_PER_QUERY]))
        yield from (HiddenAlert(*row) for row in connection.execute(part))


def _sort_key(found: HiddenAlert) -> tuple[int, datetime, str]:
    return -found.urgency, found.first_event_time, found.alert_id
