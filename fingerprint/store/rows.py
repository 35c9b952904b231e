"""Conversion between alerts, feed gaps and their rows.

Example:
    >>> to_alert(alert_row(alert) | queue_columns, event_rows(alert)) == alert
    True
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from fingerprint.alerting.impact import gravest_action
from fingerprint.core.alert import (
    ActionImpact,
    ActivityCurve,
    Alert,
    AlertEvent,
    Disposition,
    FeedGap,
    NextStep,
    SurpriseDriver,
)
from fingerprint.core.redaction import Redactor
from fingerprint.core.sanitize import index_key, storable
from fingerprint.store.schema import LARGEST, STORED_AT, Row, alert_events, alerts, dispositions, feed_gaps

NO_REDACTION = Redactor()

_QUEUE_COLUMNS = ("event_count", "urgency_shown", "sharing", STORED_AT, "gravest_action")
_ALERT_COLUMNS = tuple(column.name for column in alerts.columns if column.name not in _QUEUE_COLUMNS)
_OWN_EVENT_COLUMNS = (  # not copied as they are
    "alert_id",
    "event_id",
    "scores",
    "flagged_by",
    "thresholds",
    "raw",
    STORED_AT,
)
_EVENT_COLUMNS = tuple(
    column.name for column in alert_events.columns if column.name not in _OWN_EVENT_COLUMNS
)
_DRIVER_FIELDS, _CURVE_FIELDS = tuple(SurpriseDriver.__slots__), tuple(ActivityCurve.__slots__)
_SUPPORTING_FIELDS = ("event_id", *(name for name in _EVENT_COLUMNS if name != "event_time"))
_STEP_FIELDS, _IMPACT_FIELDS = tuple(NextStep.__slots__), tuple(ActionImpact.__slots__)
DISPOSITION_COLUMNS = tuple(dispositions.c[name] for name in Disposition.__slots__)
_FEED_GAP_COLUMNS = tuple(column.name for column in feed_gaps.columns)


def principal_span(principal: str, first: datetime, last: datetime) -> Row:
    """Return the columns of derived tables for principal and times: a digest of the principal, and seconds since 1970."""
    return {
        "principal_digest": principal_digest(principal),
        "first_at": _to_epoch_seconds(first),
        "last_at": _to_epoch_seconds(last),
    }


def principal_digest(principal: str) -> str:
    """Return the digest of a principal for derived tables."""
    return blake2b(principal.encode(), digest_size=8).hexdigest()


def _to_epoch_seconds(moment: datetime) -> int:
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())


def is_closed(case: Mapping[str, Any]) -> bool:
    """Return whether a case is closed: it is decided, and the alert has not grown since (`CLOSED` in SQL)."""
    return case["decision"] is not None and case["decided_events"] >= case["event_count"]


def alert_row(alert: Alert) -> Row:
    """Return the row of an alert, without its events (`event_rows`)."""
    row = {name: storable(getattr(alert, name)) for name in _ALERT_COLUMNS}
    return row | {
        "drivers": [_select_fields(driver, _DRIVER_FIELDS) for driver in alert.drivers],
        "next_steps": [_select_fields(step, _STEP_FIELDS) for step in alert.next_steps],
        "impact_of": [_select_fields(each, _IMPACT_FIELDS) for each in alert.impact_of],
        "supporting_events": [_supporting_row(each) for each in alert.supporting_events],
        "gravest_action": storable(gravest_action(alert.impact_of)),
        "curve": _curve_row(alert.curve),
    }


def to_alert(row: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> Alert:
    """Return the alert of a row and the rows of its events."""
    drivers = tuple(SurpriseDriver(**driver) for driver in row["drivers"])
    parts: Row = {"drivers": drivers, "curve": _to_curve(row["curve"])}
    parts |= {
        "tactics": tuple(row["tactics"]),
        "next_steps": tuple(NextStep(**step) for step in row["next_steps"]),
        "impact_of": tuple(to_action_impact(each) for each in row["impact_of"]),
        "supporting_events": tuple(_to_supporting_event(each) for each in row["supporting_events"]),
    }
    parts["events"] = tuple(to_event(event) for event in events)
    return Alert(**{name: row[name] for name in _ALERT_COLUMNS} | parts)


def to_action_impact(row: Mapping[str, Any]) -> ActionImpact:
    """Return the action's impact stored in an element of `impact_of`."""
    return ActionImpact(**{**row, "resources": tuple(row["resources"])})


def event_rows(alert: Alert, redaction: Redactor = NO_REDACTION) -> list[Row]:
    """Return a row for each event with its record redacted; if an id repeats, the last event counts."""
    alert_id = storable(alert.alert_id)
    rows = (
        {"alert_id": alert_id, "event_id": index_key(event.event_id)}
        | _figures_row(event)
        | {name: storable(getattr(event, name)) for name in _EVENT_COLUMNS}
        | {"raw": storable(redaction.redact(event.raw))}
        for event in alert.events
    )
    return list({row["event_id"]: row for row in rows}.values())


def to_event(row: Mapping[str, Any]) -> AlertEvent:
    """Return the event of a row of `alert_events`."""
    own = {name: row[name] for name in ("event_id", "raw", *_EVENT_COLUMNS)}
    return AlertEvent(**own | _to_figures(row))


def _figures_row(event: AlertEvent) -> Row:
    """Return the columns with an event's scores, votes and thresholds."""
    return {
        "scores": dict(event.scores),
        "flagged_by": list(event.flagged_by),
        "thresholds": dict(event.thresholds),
    }


def _to_figures(row: Mapping[str, Any]) -> Row:
    """Return an event's scores, votes and thresholds from its row."""
    return {
        "scores": {name: _to_score(z) for name, z in row["scores"].items()},
        "flagged_by": tuple(row["flagged_by"]),
        "thresholds": row["thresholds"],
    }


def _to_score(z: float | None) -> float | None:
    """Return a score read from JSON, in which LARGEST stands for infinity."""
    return math.copysign(math.inf, z) if z is not None and abs(z) >= LARGEST else z


def _supporting_row(event: AlertEvent) -> Row:
    """Return an event without its record as an element of `supporting_events`."""
    return {
        **_select_fields(event, _SUPPORTING_FIELDS),
        "event_time": event.event_time.astimezone(UTC).isoformat(),
        **_figures_row(event),
    }


def _to_supporting_event(row: Row) -> AlertEvent:
    """Return the event of an element of `supporting_events`."""
    when = datetime.fromisoformat(row["event_time"])
    return AlertEvent(**row | _to_figures(row) | {"event_time": when, "raw": ""})


def feed_gap_row(gap: FeedGap) -> Row:
    """Return the row of a feed gap."""
    return {name: storable(getattr(gap, name)) for name in _FEED_GAP_COLUMNS}


def _select_fields(record: Any, names: Sequence[str]) -> Row:
    return {name: getattr(record, name) for name in names}


def _curve_row(curve: ActivityCurve | None) -> Row | None:
    if curve is None:
        return None
    return _select_fields(curve, _CURVE_FIELDS) | {"start": curve.start.astimezone(UTC).isoformat()}


def _to_curve(row: Row | None) -> ActivityCurve | None:
    if row is None:
        return None
    series = {name: tuple(math.nan if x is None else x for x in row[name]) for name in ("counts", "expected")}
    start = datetime.fromisoformat(row["start"])
    return ActivityCurve(**row | series | {"start": start, "flagged": tuple(row["flagged"])})
