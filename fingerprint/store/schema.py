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

from fingerprint.core.alert import Alert, AlertEvent, Curve, Driver, Notice
from fingerprint.core.redaction import Redaction
from fingerprint.core.sanitize import storable

FIRST = {"meta", "alerts", "alert_events", "votes"}  # the tables of version 1

NO_REDACTION = Redaction()
STORED = "stored_at"  # the desk's own column, none of a record's; the first time counts
LONGEST_KEY = 500  # characters, of at most 4 bytes each: PostgreSQL's B-trees take 2,704 bytes

Row = dict[str, Any]


class Utc(sql.types.TypeDecorator[datetime]):
    """A moment: stored in UTC, comes back in UTC with its time zone, also where the database keeps none."""

    impl = sql.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or value.tzinfo is UTC:
            return value
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return self.process_bind_param(value, dialect)


class Real(sql.types.TypeDecorator[float]):
    """A figure. NaN is no figure, in PostgreSQL as in SQLite."""

    impl = sql.Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        return None if value is None or math.isnan(value) else value


class Json(sql.types.TypeDecorator[Any]):
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


def text(name: str, **options: Any) -> sql.Column[str]:
    """A column of text, never null."""
    return sql.Column(name, sql.Text, nullable=False, **options)


def when(name: str, **options: Any) -> sql.Column[datetime]:
    """A column of moments, never null."""
    return sql.Column(name, Utc, nullable=False, **options)


meta = sql.Table("meta", metadata, text("name", primary_key=True), text("value"))

alerts = sql.Table(
    "alerts",
    metadata,
    text("alert_id", primary_key=True),
    text("principal"),
    text("human"),
    when("window_start"),
    when("first_event_time"),
    when("last_event_time"),
    sql.Column("urgency", sql.Integer, nullable=False),
    text("title"),
    text("level"),
    text("bank_version"),
    sql.Column("degraded", sql.Boolean, nullable=False, server_default=sql.false()),  # since version 3
    # Since version 5, for the queue; none of an Alert's own fields.
    sql.Column("event_count", sql.Integer, nullable=False, server_default="0"),  # of all its evidence
    sql.Column("urgency_shown", sql.Integer, nullable=False, server_default="0"),  # lowered by ...
    sql.Column("sharing", sql.Integer, nullable=False, server_default="0"),  # ... principals that share it
    # What is wide lies last: SQLite reads a row from its beginning, and the queue asks for none of these.
    sql.Column("drivers", Json, nullable=False),
    sql.Column("curve", Json(none_as_null=True)),
    sql.Column("tactics", Json, nullable=False),
    sql.Column("next_steps", Json, nullable=False),
)
ORDER = (alerts.c.urgency.desc(), alerts.c.first_event_time, alerts.c.alert_id)
sql.Index("alerts_in_order", *ORDER)
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
    text("alert_id", primary_key=True),
    text("event_id", primary_key=True),
    when("event_time"),
    text("entity"),
    text("service"),
    text("action"),
    text("region"),
    text("source_address"),
    text("user_agent"),
    text("error_code"),
    text("session"),
    sql.Column("autoencoder_z", Real),
    sql.Column("spectral_z", Real),
    text("raw"),
    text("bank_version", server_default=""),  # since version 4
    text("access_key", server_default=""),
    sql.Column("stored_at", Utc),  # since version 8: when the desk got it, by which it is kept
)

votes = sql.Table(
    "votes",
    metadata,
    text("event_id", primary_key=True),
    text("detector", primary_key=True),
    when("event_time", index=True),
    text("principal"),
    text("entity"),
    sql.Column("z", Real, nullable=False),
    sql.Column("threshold", Real, nullable=False),
    sql.Column("vote", sql.Boolean, nullable=False),
    text("level"),
    text("bank_version", server_default=""),  # since version 4
    sql.Column("alone", sql.Boolean, nullable=False, server_default=sql.false()),
    sql.Column("stored_at", Utc, index=True),  # since version 8
)

# A B-tree of PostgreSQL takes 2,704 bytes, and a principal may be longer; a hash index takes any.
sql.Index("ix_alerts_principal", alerts.c.principal, postgresql_using="hash")
sql.Index("votes_of_principal", votes.c.principal, votes.c.event_time).ddl_if(dialect="sqlite")
sql.Index("votes_by_principal", votes.c.principal, postgresql_using="hash").ddl_if(dialect="postgresql")

dispositions = sql.Table(  # since version 4; the newest of an alert counts, the others are its history
    "dispositions",
    metadata,
    text("alert_id", primary_key=True),
    when("at", primary_key=True),
    text("decision"),
    text("by"),
    text("why"),
    sql.Column("events", sql.Integer, nullable=False),
    text("duplicate_of"),
)

feed_counts = sql.Table(  # `at` is the start of an interval, seconds since 1970
    "feed_counts",
    metadata,
    text("kind", primary_key=True),
    text("feed", primary_key=True),
    sql.Column("at", sql.BigInteger, primary_key=True, index=True, autoincrement=False),
    text("partition", primary_key=True),
    sql.Column("events", sql.BigInteger, nullable=False),
)

feed_progress = sql.Table(  # what lies before `closed` is complete, as far as this partition goes
    "feed_progress",
    metadata,
    text("partition", primary_key=True),
    sql.Column("closed", sql.BigInteger, nullable=False),
)

notices = sql.Table(
    "notices",
    metadata,
    text("notice_id", primary_key=True),
    text("kind"),
    text("feed"),
    when("since", index=True),
    when("seen_at"),
    sql.Column("expected", Real, nullable=False),
    sql.Column("hourly", Real, nullable=False),
    sql.Column("urgency", sql.Integer, nullable=False),
    text("title"),
    sql.Column("ended_at", Utc, index=True),
    text("ending"),
)

_NOTICE = tuple(column.name for column in notices.columns)
_OF_THE_QUEUE = ("event_count", "urgency_shown", "sharing")
_ALERT = tuple(column.name for column in alerts.columns if column.name not in _OF_THE_QUEUE)
_EVENT = tuple(column.name for column in alert_events.columns if column.name not in ("alert_id", STORED))
_DRIVER, _CURVE = tuple(Driver.__slots__), tuple(Curve.__slots__)


def row_of(alert: Alert) -> Row:
    """An alert's own row; its events have theirs."""
    row = {name: storable(getattr(alert, name)) for name in _ALERT}
    return row | {
        "drivers": [_fields(driver, _DRIVER) for driver in alert.drivers],
        "curve": _curve_row(alert.curve),
    }


def rows_of_events(alert: Alert, redaction: Redaction = NO_REDACTION) -> list[Row]:
    """A row per event, the last one where an id repeats; records without what is not to be kept of them."""
    alert_id = storable(alert.alert_id)
    rows = (
        {"alert_id": alert_id}
        | {name: storable(getattr(event, name)) for name in _EVENT}
        | {"event_id": key_of(event.event_id), "raw": storable(redaction.of(event.raw))}
        for event in alert.events
    )
    return list({row["event_id"]: row for row in rows}.values())


def key_of(text: str) -> str:
    """An event's id as part of a key: AWS's have 36 characters; one that no index would take is its beginning and a digest."""
    text = storable(text)
    if len(text) <= LONGEST_KEY:
        return text
    return f"{text[: LONGEST_KEY - 33]}…{blake2b(text.encode(), digest_size=16).hexdigest()}"


def row_of_notice(notice: Notice) -> Row:
    return {name: storable(getattr(notice, name)) for name in _NOTICE}


def notice_of(row: Row) -> Notice:
    return Notice(**{name: row[name] for name in _NOTICE})


def alert_of(row: Row, events: Sequence[Row]) -> Alert:
    """The alert behind its row and those of its events."""
    drivers = tuple(Driver(**driver) for driver in row["drivers"])
    parts: Row = {"drivers": drivers, "curve": _curve_of(row["curve"])}
    parts |= {name: tuple(row[name]) for name in ("tactics", "next_steps")}
    parts["events"] = tuple(AlertEvent(**{name: event[name] for name in _EVENT}) for event in events)
    return Alert(**{name: row[name] for name in _ALERT} | parts)


def _fields(record: Any, names: Sequence[str]) -> Row:
    return {name: getattr(record, name) for name in names}


def _curve_row(curve: Curve | None) -> Row | None:
    if curve is None:
        return None
    return _fields(curve, _CURVE) | {"start": curve.start.astimezone(UTC).isoformat()}


def _curve_of(row: Row | None) -> Curve | None:
    if row is None:
        return None
    series = {name: tuple(math.nan if x is None else x for x in row[name]) for name in ("counts", "expected")}
    start = datetime.fromisoformat(row["start"])
    return Curve(**row | series | {"start": start, "flagged": tuple(row["flagged"])})


def insert_of(connection: sql.Connection, table: sql.Table) -> Any:
    """An INSERT that knows ON CONFLICT, which both dialects have."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def dumped(rows: Sequence[sql.Row[Any]]) -> str:
    """Rows as one line of JSON each: to compare what a desk holds."""
    return "\n".join(json.dumps(list(row), default=str) for row in rows)
