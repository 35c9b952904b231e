"""The evidence of alerts: events page by page, single records, and whole alerts for export.

Example:
    >>> store.evidence.summary("397edb7b6806").drivers[0].feature
    'network'
    >>> for alert, disposition in store.evidence.iterate_full_alerts():
    ...     print(alert.title, disposition.decision if disposition else "open")
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sql

from fingerprint.core.alert import Alert, AlertEvent, Disposition
from fingerprint.core.case import MAX_PAGE_SIZE, EvidencePage
from fingerprint.core.errors import FingerprintError, NotFound
from fingerprint.core.sanitize import index_key, storable
from fingerprint.core.story import CallSummary, EventSelection, RunPage, Tally
from fingerprint.store.database import Repository, no_such_alert, reads
from fingerprint.store.event_story import read_calls, read_runs, read_tallies, selected
from fingerprint.store.query_conditions import CLOSED
from fingerprint.store.rows import DISPOSITION_COLUMNS, to_alert, to_event
from fingerprint.store.schema import (
    Row,
    alert_events,
    alerts,
    cases,
    dispositions,
    id_batches,
    removed_records,
)

EXPORT_BATCH = 100  # most alerts in memory at once, with their events
EXPORT_EVENTS = 20_000  # most events of these alerts in total
RECORDS_AT_ONCE = 20  # records read together: each has at most 1 MiB
PAGE_RECORD_LENGTH = 16 << 20  # characters of records after which a page of events ends
_URGENCY_ORDER = (alerts.c.urgency_shown.desc(), alerts.c.first_event_time, alerts.c.alert_id)

AlertWithDisposition = tuple[Alert, Disposition | None]


class SqlEvidenceRepository(Repository):
    """The evidence of an alert, in parts."""

    @reads
    def summary(self, connection: sql.Connection, alert_id: str) -> Alert:
        """Return an alert without its events. Raise NotFound without one."""
        return _read_summary(connection, alert_id)

    @reads
    def find_ids(self, connection: sql.Connection, id_or_prefix: str) -> list[str]:
        """Return the alert with this id, else up to four whose ids begin with it."""
        return _find_ids(connection, id_or_prefix)

    @reads
    def events(
        self,
        connection: sql.Connection,
        alert_id: str,
        size: int = 200,
        cursor: str | None = None,
        raw: bool = True,
        selection: EventSelection | None = None,
        newest_first: bool = False,
    ) -> EvidencePage:
        """Return a page of an alert's selected events; without `raw`, records are empty text.

        A page ends early if the records of its events reach PAGE_RECORD_LENGTH characters.
        Raise NotFound without the alert, and FingerprintError if the page is too large or no page had the cursor.
        """
        _check_size(size)
        table = alert_events.c
        own = sql.and_(table.alert_id == storable(alert_id), *selected(selection))
        total = _count_events(connection, alert_id, own)
        order = (table.event_time, table.event_id)
        query = _select_events(raw=False).where(own).limit(size + 1)
        query = query.order_by(*(each.desc() if newest_first else each for each in order))
        if cursor:
            place, end = sql.tuple_(*order), sql.tuple_(*_parse_cursor(cursor))
            query = query.where(place < end if newest_first else place > end)
        found = [to_event(dict(row)) for row in connection.execute(query).mappings()]
        kept = found[:size]
        if raw:
            kept = _with_records(connection, alert_id, kept)
        return EvidencePage(tuple(kept), total, _cursor(kept[-1]) if len(found) > len(kept) else None)

    @reads
    def calls(self, connection: sql.Connection, alert_ids: Sequence[str]) -> list[CallSummary]:
        """Return a summary of each call over all events of these alerts, in the order of first calls."""
        return read_calls(connection, [storable(each) for each in alert_ids])

    @reads
    def tallies(self, connection: sql.Connection, alert_ids: Sequence[str]) -> dict[str, Tally]:
        """Return a tally of each of the fields `core.story.TALLIED` over all events of these alerts."""
        return read_tallies(connection, [storable(each) for each in alert_ids])

    @reads
    def runs(
        self,
        connection: sql.Connection,
        alert_id: str,
        selection: EventSelection | None = None,
        size: int = 100,
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> RunPage:
        """Return a page of an alert's selected events with repeats folded, without raw records.

        Raise NotFound without the alert, and FingerprintError if the page is too large or no page had the cursor.
        """
        _check_size(size)
        selection = selection or EventSelection()
        own = sql.and_(alert_events.c.alert_id == storable(alert_id), *selected(selection))
        events = _count_events(connection, alert_id, own)
        after = _parse_cursor(cursor) if cursor else None
        found, total = read_runs(connection, storable(alert_id), selection, size + 1, after, newest_first)
        more = len(found) > size
        shown = tuple(
            replace(run, following=_cursor(run.events[-1])) if run.count > len(run.events) else run
            for run in found[:size]
        )
        return RunPage(shown, total, events, _cursor(shown[-1].first) if more else None)

    @reads
    def event(self, connection: sql.Connection, alert_id: str, event_id: str) -> AlertEvent:
        """Return one event with its record. Raise NotFound without it."""
        table = alert_events.c
        own = (table.alert_id == storable(alert_id)) & (table.event_id == index_key(event_id))
        row = connection.execute(_select_events(raw=True).where(own)).mappings().one_or_none()
        if row is None:
            raise NotFound(f"alert {alert_id!r} has no event {event_id!r}")
        return to_event(dict(row))

    @reads
    def records(self, connection: sql.Connection, alert_id: str, event_ids: Sequence[str]) -> dict[str, str]:
        """Return the raw records of these events by id, without events that the alert does not have."""
        return _read_records(connection, alert_id, event_ids)

    def full_alerts(self, alert_ids: Sequence[str]) -> Iterator[AlertWithDisposition]:
        """Yield these alerts in the given order, with all events and the decision in force; missing ones are left out.

        Few alerts are in memory at a time, each as it is when it is read, so no transaction lasts while the caller works. Records
        are left out: they are most of an alert's bytes, and an attacker chooses their length.
        """
        for ids in id_batches(alert_ids, EXPORT_BATCH):
            with self._session.reading() as connection:
                batches = list(_bounded_batches(connection, ids))
            for batch in batches:
                with self._session.reading() as connection:
                    found = read_full_alerts(connection, batch)
                yield from found

    def iterate_full_alerts(self) -> Iterator[AlertWithDisposition]:
        """Yield all alerts at one point in time, in the order of the queue, without records; few are in memory at a time."""
        with self._session.reading() as connection:
            every = connection.scalars(sql.select(alerts.c.alert_id).order_by(*_URGENCY_ORDER)).all()
            for ids in id_batches(every, EXPORT_BATCH):
                for batch in _bounded_batches(connection, ids):
                    yield from read_full_alerts(connection, batch)

    @reads
    def records_removed_at(self, connection: sql.Connection, alert_id: str) -> datetime | None:
        """Return when retention removed raw records of an alert; None while all are stored."""
        query = sql.select(removed_records.c.at).where(removed_records.c.alert_id == storable(alert_id))
        removed_at: datetime | None = connection.scalar(query)
        return removed_at


def resolve_alert_id(connection: sql.Connection, id_or_prefix: str) -> str:
    """Return the whole id of an alert, given the id or its first characters.

    Raise NotFound if no id begins so, FingerprintError if several do.
    """
    found = _find_ids(connection, id_or_prefix)
    if not found:
        raise NotFound(
            f"no alert has an id that starts with {id_or_prefix!r}: the queue lists those there are"
        )
    if len(found) > 1:
        more = " or others" if len(found) > 3 else ""
        raise FingerprintError(f"{id_or_prefix!r} could be {', '.join(found[:3])}{more}: give more of the id")
    return found[0]


def _find_ids(connection: sql.Connection, id_or_prefix: str) -> list[str]:
    """Return the alert with this id, else up to four whose ids begin with it; both queries use an index."""
    prefix, alert_id = storable(id_or_prefix), alerts.c.alert_id
    if not prefix:
        return []
    query = sql.select(alert_id)
    whole = connection.scalars(query.where(alert_id == prefix)).all()
    begun = query.where(_begins_with(connection, prefix)).order_by(alert_id).limit(4)
    return list(whole or connection.scalars(begun))


def _begins_with(connection: sql.Connection, prefix: str) -> sql.ColumnElement[bool]:
    """Return the condition that an id begins with a prefix. SQLite orders text by bytes; PostgreSQL has an index for LIKE."""
    alert_id = alerts.c.alert_id
    if connection.dialect.name == "sqlite":
        return (alert_id >= prefix) & (alert_id < prefix + chr(sys.maxunicode))
    return alert_id.startswith(prefix, autoescape=True)


def read_full_alerts(connection: sql.Connection, ids: Sequence[str]) -> list[AlertWithDisposition]:
    """Return these alerts in the given order, with the queue's urgency and without records; missing ones are left out."""
    query = sql.select(alerts).where(alerts.c.alert_id.in_(ids))
    rows = {row["alert_id"]: dict(row) for row in connection.execute(query).mappings()}
    events = read_events_by_alert(connection, list(rows), raw=False)
    decided = _dispositions_in_force(connection, ids)
    return [
        (to_alert(rows[name] | {"urgency": rows[name]["urgency_shown"]}, events[name]), decided.get(name))
        for name in ids
        if name in rows
    ]


def _with_records(
    connection: sql.Connection, alert_id: str, events: Sequence[AlertEvent]
) -> list[AlertEvent]:
    """Return events with their records; only the first events if records are long, because attackers choose their length."""
    read: list[AlertEvent] = []
    length = 0
    for some in id_batches(events, RECORDS_AT_ONCE):
        records = _read_records(connection, alert_id, [event.event_id for event in some])
        read += [replace(event, raw=records.get(event.event_id, "")) for event in some]
        length += sum(map(len, records.values()))
        if length >= PAGE_RECORD_LENGTH:
            break
    return read


def _read_records(connection: sql.Connection, alert_id: str, event_ids: Sequence[str]) -> dict[str, str]:
    table = alert_events.c
    found: dict[str, str] = {}
    for batch in id_batches(event_ids):
        own = (table.alert_id == storable(alert_id)) & table.event_id.in_(batch)
        query = sql.select(table.event_id, table.raw).where(own)
        found |= {row.event_id: row.raw for row in connection.execute(query)}
    return found


def _bounded_batches(connection: sql.Connection, ids: Sequence[str]) -> Iterator[list[str]]:
    """Yield ids in their order in batches of alerts with at most EXPORT_EVENTS events in total; a larger alert comes alone."""
    query = sql.select(alerts.c.alert_id, alerts.c.event_count).where(alerts.c.alert_id.in_(ids))
    sizes = {row[0]: row[1] for row in connection.execute(query)}
    batch: list[str] = []
    total = 0
    for alert_id in filter(sizes.__contains__, ids):
        if batch and total + sizes[alert_id] > EXPORT_EVENTS:
            yield batch
            batch, total = [], 0
        batch.append(alert_id)
        total += sizes[alert_id]
    if batch:
        yield batch


def read_events_by_alert(
    connection: sql.Connection, ids: Sequence[str], raw: bool = True
) -> dict[str, list[Row]]:
    """Return the rows of these alerts' events, the oldest first."""
    events: dict[str, list[Row]] = {alert_id: [] for alert_id in ids}
    table = alert_events.c
    for batch in id_batches(ids):
        query = _select_events(raw).where(table.alert_id.in_(batch))
        for row in connection.execute(query.order_by(table.event_time, table.event_id)).mappings():
            events[row["alert_id"]].append(dict(row))
    return events


def _read_summary(connection: sql.Connection, alert_id: str) -> Alert:
    query = sql.select(alerts).where(alerts.c.alert_id == storable(alert_id))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise no_such_alert(alert_id)
    return to_alert(dict(row), [])


def _check_size(size: int) -> None:
    if not 0 < size <= MAX_PAGE_SIZE:
        raise FingerprintError(f"a page has 1 to {MAX_PAGE_SIZE} events, not {size}")


def _count_events(connection: sql.Connection, alert_id: str, own: sql.ColumnElement[bool]) -> int:
    """Return the number of an alert's events that match `own`. Raise NotFound without the alert."""
    total = connection.scalar(sql.select(sql.func.count()).select_from(alert_events).where(own)) or 0
    if not total:
        _read_summary(connection, alert_id)
    return total


def _select_events(raw: bool) -> sql.Select[Any]:
    """Return a query of events; without `raw`, records, which are most of an event's bytes, stay in the database."""
    empty = sql.literal("").label("raw")
    return sql.select(*(column if raw or column.name != "raw" else empty for column in alert_events.columns))


def _dispositions_in_force(connection: sql.Connection, ids: Sequence[str]) -> dict[str, Disposition]:
    """Return the newest disposition of each alert whose case is closed: neither reopened nor outgrown."""
    query = (
        sql.select(*DISPOSITION_COLUMNS)
        .join_from(dispositions, cases, cases.c.alert_id == dispositions.c.alert_id)
        .join(alerts, alerts.c.alert_id == cases.c.alert_id)
        .where(dispositions.c.alert_id.in_(ids), CLOSED)
        .order_by(dispositions.c.at)
    )
    return {row["alert_id"]: Disposition(**row) for row in connection.execute(query).mappings()}


# --- the cursor of a page ---------------------------------------------------------------------------------------------


def _cursor(last: AlertEvent) -> str:
    position = json.dumps([last.event_time.isoformat(), last.event_id])
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


def _parse_cursor(cursor: str) -> tuple[sql.BindParameter[Any], sql.BindParameter[Any]]:
    """Return the time and id after which a page begins."""
    try:
        moment, event_id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        event_time = datetime.fromisoformat(moment).astimezone(UTC)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise FingerprintError("no page begins there: pass `following` as the page before gave it") from None
    return (
        sql.literal(event_time, alert_events.c.event_time.type),
        sql.literal(storable(str(event_id)), alert_events.c.event_id.type),
    )
