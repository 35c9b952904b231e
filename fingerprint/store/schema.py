"""The desk's tables, and how their rows turn into the house's records and back.

`alert_events` is an alert's evidence, keyed by (alert_id, event_id). Nothing here belongs to triage: what
people decide gets tables of its own. All times are UTC.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect

from fingerprint.core.alert import ActivityCurve, Alert, AlertEvent, FeedGap, SurpriseDriver
from fingerprint.core.redaction import Redactor
from fingerprint.core.sanitize import storable

REQUIRED_TABLES = {"meta", "alerts", "alert_events", "votes"}  # the tables of version 1

NO_REDACTION = Redactor()
STORED_AT = "stored_at"  # the desk's own column, none of a record's; the first time counts
MAX_KEY_LENGTH = 500  # characters, of at most 4 bytes each: PostgreSQL's B-trees take 2,704 bytes

Row = dict[str, Any]


class UtcDateTime(sql.types.TypeDecorator[datetime]):
    """A moment: stored in UTC, comes back in UTC with its time zone, also where the database keeps none."""

    impl = sql.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or value.tzinfo is UTC:
            return value
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return self.process_bind_param(value, dialect)


class NanAsNull(sql.types.TypeDecorator[float]):
    """A figure. NaN is no figure, in PostgreSQL as in SQLite."""

    impl = sql.Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        return None if value is None or math.isnan(value) else value


class FiniteJson(sql.types.TypeDecorator[Any]):
    """A list or object. NaN, which JSON has no word for, is null; an infinity is the largest number."""

    impl = sql.JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return _finite(storable(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else max(-1e308, min(1e308, value))
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return {key: _finite(part) for key, part in value.items()} if isinstance(value, dict) else value


metadata = sql.MetaData()


def required_text(name: str, **options: Any) -> sql.Column[str]:
    """A column of text, never null."""
    return sql.Column(name, sql.Text, nullable=False, **options)


def required_time(name: str, **options: Any) -> sql.Column[datetime]:
    """A column of moments, never null."""
    return sql.Column(name, UtcDateTime, nullable=False, **options)


meta = sql.Table("meta", metadata, required_text("name", primary_key=True), required_text("value"))

alerts = sql.Table(
    "alerts",
    metadata,
    required_text("alert_id", primary_key=True),
    required_text("principal"),
    required_text("human"),
    required_time("window_start"),
    required_time("first_event_time"),
    required_time("last_event_time"),
    sql.Column("urgency", sql.Integer, nullable=False),
    required_text("title"),
    required_text("level"),
    required_text("bank_version"),
    sql.Column("degraded", sql.Boolean, nullable=False, server_default=sql.false()),  # since version 3
    # Since version 5, for the queue; none of an Alert's own fields.
    sql.Column("event_count", sql.Integer, nullable=False, server_default="0"),  # of all its evidence
    sql.Column("urgency_shown", sql.Integer, nullable=False, server_default="0"),  # lowered by ...
    sql.Column("sharing", sql.Integer, nullable=False, server_default="0"),  # ... principals that share it
    # What is wide lies last: SQLite reads a row from its beginning, and the queue asks for none of these.
    sql.Column("drivers", FiniteJson, nullable=False),
    sql.Column("curve", FiniteJson(none_as_null=True)),
    sql.Column("tactics", FiniteJson, nullable=False),
    sql.Column("next_steps", FiniteJson, nullable=False),
)
ALERT_ORDER = (alerts.c.urgency.desc(), alerts.c.first_event_time, alerts.c.alert_id)
sql.Index("alerts_in_order", *ALERT_ORDER)
# The queue's orders. Each has `event_count`, so that an alert that is closed costs no look at its row.
sql.Index(
    "alerts_by_urgency",
    alerts.c.urgency_shown.desc(),
    alerts.c.first_event_time,
    alerts.c.alert_id,
    alerts.c.event_count,
)
sql.Index("alerts_newest", alerts.c.last_event_time.desc(), alerts.c.alert_id, alerts.c.event_count)
sql.Index("alerts_oldest", alerts.c.first_event_time, alerts.c.alert_id, alerts.c.event_count)
sql.Index("alerts_largest", alerts.c.event_count.desc(), alerts.c.first_event_time, alerts.c.alert_id)
# Counting reads this and `cases`, both in the order of ids, and no row of alerts, which are wide.
sql.Index("alerts_counted", alerts.c.alert_id, alerts.c.event_count, alerts.c.urgency_shown)

alert_events = sql.Table(
    "alert_events",
    metadata,
    required_text("alert_id", primary_key=True),
    required_text("event_id", primary_key=True),
    required_time("event_time"),
    required_text("entity"),
    required_text("service"),
    required_text("action"),
    required_text("region"),
    required_text("source_address"),
    required_text("user_agent"),
    required_text("error_code"),
    required_text("session"),
    sql.Column("scores", FiniteJson, nullable=False),  # detector -> z, null for no opinion
    required_text("raw"),
    required_text("bank_version", server_default=""),  # since version 4
    required_text("access_key", server_default=""),
    sql.Column("stored_at", UtcDateTime),  # since version 8: when the desk got it, by which it is kept
)

votes = sql.Table(
    "votes",
    metadata,
    required_text("event_id", primary_key=True),
    required_text("detector", primary_key=True),
    required_time("event_time", index=True),
    required_text("principal"),
    required_text("entity"),
    sql.Column("z", NanAsNull, nullable=False),
    sql.Column("threshold", NanAsNull, nullable=False),
    sql.Column("vote", sql.Boolean, nullable=False),
    required_text("level"),
    required_text("bank_version", server_default=""),  # since version 4
    sql.Column("alone", sql.Boolean, nullable=False, server_default=sql.false()),
    sql.Column("stored_at", UtcDateTime, index=True),  # since version 8
)

# A B-tree of PostgreSQL takes 2,704 bytes, and a principal may be longer; a hash index takes any.
sql.Index("ix_alerts_principal", alerts.c.principal, postgresql_using="hash")
sql.Index("votes_of_principal", votes.c.principal, votes.c.event_time).ddl_if(dialect="sqlite")
sql.Index("votes_by_principal", votes.c.principal, postgresql_using="hash").ddl_if(dialect="postgresql")

dispositions = sql.Table(  # since version 4; the newest of an alert counts, the others are its history
    "dispositions",
    metadata,
    required_text("alert_id", primary_key=True),
    required_time("at", primary_key=True),
    required_text("decision"),
    required_text("by"),
    required_text("why"),
    sql.Column("events", sql.Integer, nullable=False),
    required_text("duplicate_of"),
)

feed_counts = sql.Table(  # `at` is the start of an interval, seconds since 1970
    "feed_counts",
    metadata,
    required_text("kind", primary_key=True),
    required_text("feed", primary_key=True),
    sql.Column("at", sql.BigInteger, primary_key=True, index=True, autoincrement=False),
    required_text("partition", primary_key=True),
    sql.Column("events", sql.BigInteger, nullable=False),
)

feed_progress = sql.Table(  # what lies before `closed` is complete, as far as this partition goes
    "feed_progress",
    metadata,
    required_text("partition", primary_key=True),
    sql.Column("closed", sql.BigInteger, nullable=False),
)

feed_gaps = sql.Table(
    "notices",
    metadata,
    required_text("notice_id", primary_key=True),
    required_text("kind"),
    required_text("feed"),
    required_time("since", index=True),
    required_time("seen_at"),
    sql.Column("expected", NanAsNull, nullable=False),
    sql.Column("hourly", NanAsNull, nullable=False),
    sql.Column("urgency", sql.Integer, nullable=False),
    required_text("title"),
    sql.Column("ended_at", UtcDateTime, index=True),
    required_text("ending"),
)

_FEED_GAP_COLUMNS = tuple(column.name for column in feed_gaps.columns)
_QUEUE_COLUMNS = ("event_count", "urgency_shown", "sharing")
_ALERT_COLUMNS = tuple(column.name for column in alerts.columns if column.name not in _QUEUE_COLUMNS)
_EVENT_COLUMNS = tuple(
    column.name for column in alert_events.columns if column.name not in ("alert_id", STORED_AT)
)
_DRIVER_FIELDS, _CURVE_FIELDS = tuple(SurpriseDriver.__slots__), tuple(ActivityCurve.__slots__)


def alert_row(alert: Alert) -> Row:
    """An alert's own row; its events have theirs."""
    row = {name: storable(getattr(alert, name)) for name in _ALERT_COLUMNS}
    return row | {
        "drivers": [_select_fields(driver, _DRIVER_FIELDS) for driver in alert.drivers],
        "curve": _curve_row(alert.curve),
    }


def event_rows(alert: Alert, redaction: Redactor = NO_REDACTION) -> list[Row]:
    """A row per event, the last one where an id repeats; records without what is not to be kept of them."""
    alert_id = storable(alert.alert_id)
    rows = (
        {"alert_id": alert_id}
        | {name: storable(getattr(event, name)) for name in _EVENT_COLUMNS}
        | {"event_id": index_key(event.event_id), "raw": storable(redaction.redact(event.raw))}
        for event in alert.events
    )
    return list({row["event_id"]: row for row in rows}.values())


def index_key(text: str) -> str:
    """An event's id as part of a key: AWS's have 36 characters; one that no index would take is its beginning and a digest."""
    text = storable(text)
    if len(text) <= MAX_KEY_LENGTH:
        return text
    return f"{text[: MAX_KEY_LENGTH - 33]}…{blake2b(text.encode(), digest_size=16).hexdigest()}"


def feed_gap_row(gap: FeedGap) -> Row:
    return {name: storable(getattr(gap, name)) for name in _FEED_GAP_COLUMNS}


def to_feed_gap(row: Row) -> FeedGap:
    return FeedGap(**{name: row[name] for name in _FEED_GAP_COLUMNS})


def to_alert(row: Row, events: Sequence[Row]) -> Alert:
    """The alert behind its row and those of its events."""
    drivers = tuple(SurpriseDriver(**driver) for driver in row["drivers"])
    parts: Row = {"drivers": drivers, "curve": _to_curve(row["curve"])}
    parts |= {name: tuple(row[name]) for name in ("tactics", "next_steps")}
    parts["events"] = tuple(AlertEvent(**{name: event[name] for name in _EVENT_COLUMNS}) for event in events)
    return Alert(**{name: row[name] for name in _ALERT_COLUMNS} | parts)


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


def insert_into(connection: sql.Connection, table: sql.Table) -> Any:
    """An INSERT that knows ON CONFLICT, which both dialects have."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def dump_rows(rows: Sequence[sql.Row[Any]]) -> str:
    """Rows as one line of JSON each: to compare what a desk holds."""
    return "\n".join(json.dumps(list(row), default=str) for row in rows)
