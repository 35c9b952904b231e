"""Queries that summarise the events of alerts in the database: calls, tallies and runs of repeated calls.

Example:
    >>> [call.name for call in read_calls(connection, ["397edb7b6806"])]
    ['iam:ListUsers', 'cloudtrail:StopLogging']

`core.story` has the records that they return, and a plain version of each query. No query reads raw records, and each result is
bounded: an alert has up to 10,000 events, and an attacker chooses how many resources and user agents they name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sql

from fingerprint.core.story import (
    MAX_RESOURCES,
    MAX_RUN_EVENTS,
    MAX_TALLIED,
    TALLIED,
    CallSummary,
    EventRun,
    EventSelection,
    Tally,
    ranked,
)
from fingerprint.store.rows import to_event
from fingerprint.store.schema import Row, alert_events, id_batches

EVENTS = alert_events.c
CALL = (EVENTS.service, EVENTS.action)
REPEATED = (*CALL, EVENTS.error_code)  # events of one run share these
IN_ORDER = (EVENTS.event_time, EVENTS.event_id)

Position = tuple[sql.BindParameter[Any], sql.BindParameter[Any]]  # time and id after which a page begins


def read_calls(connection: sql.Connection, alert_ids: Sequence[str]) -> list[CallSummary]:
    """Return a summary of each call of these alerts, in the order of first calls."""
    groups: dict[tuple[str, str], list[sql.RowMapping]] = {}
    moments = (sql.func.min(EVENTS.event_time).label("first"), sql.func.max(EVENTS.event_time).label("last"))
    query = (
        sql.select(*REPEATED, *moments, sql.func.count().label("events"))
        .where(EVENTS.alert_id.in_(alert_ids))
        .group_by(*REPEATED)
    )
    for row in connection.execute(query).mappings():
        groups.setdefault((row["service"], row["action"]), []).append(row)
    resources = _read_resources(connection, alert_ids)
    made = [
        CallSummary(
            *call,
            sum(row["events"] for row in rows),
            min(row["first"] for row in rows),
            max(row["last"] for row in rows),
            ranked({row["error_code"]: row["events"] for row in rows}),
            resources.get(call, Tally()),
        )
        for call, rows in groups.items()
    ]
    return sorted(made, key=lambda call: (call.first, call.name))


def _read_resources(connection: sql.Connection, alert_ids: Sequence[str]) -> dict[tuple[str, str], Tally]:
    """Return the tally of each call's resources: the most frequent ones, and the number of all."""
    counted = (
        sql.select(*CALL, EVENTS.resource, sql.func.count().label("events"))
        .where(EVENTS.alert_id.in_(alert_ids), EVENTS.resource != "")
        .group_by(*CALL, EVENTS.resource)
        .subquery()
    )
    of_call = (counted.c.service, counted.c.action)
    frequent = (counted.c.events.desc(), _by_code_point(connection, counted.c.resource))
    place = sql.func.row_number().over(partition_by=of_call, order_by=frequent).label("place")
    distinct = sql.func.count().over(partition_by=of_call).label("distinct_count")
    numbered = sql.select(*counted.c, place, distinct).subquery()
    query = sql.select(*numbered.c).where(numbered.c.place <= MAX_RESOURCES).order_by(numbered.c.place)
    values: dict[tuple[str, str], list[tuple[str, int]]] = {}
    totals: dict[tuple[str, str], int] = {}
    for row in connection.execute(query).mappings():
        call = (row["service"], row["action"])
        values.setdefault(call, []).append((row["resource"], row["events"]))
        totals[call] = row["distinct_count"]
    return {call: Tally(tuple(found), totals[call]) for call, found in values.items()}


def read_tallies(connection: sql.Connection, alert_ids: Sequence[str]) -> dict[str, Tally]:
    """Return a tally of each of the fields TALLIED over all events of these alerts."""
    return {name: _read_tally(connection, alert_ids, EVENTS[name]) for name in TALLIED}


def _read_tally(connection: sql.Connection, alert_ids: Sequence[str], column: sql.Column[str]) -> Tally:
    own = EVENTS.alert_id.in_(alert_ids) & (column != "")
    number = sql.func.count().label("events")
    query = sql.select(column, number).where(own).group_by(column)
    query = query.order_by(number.desc(), _by_code_point(connection, column)).limit(MAX_TALLIED + 1)
    values = tuple((value, count) for value, count in connection.execute(query))
    if len(values) <= MAX_TALLIED:
        return Tally(values, len(values))
    distinct = connection.scalar(sql.select(sql.func.count(column.distinct())).where(own)) or 0
    return Tally(values[:MAX_TALLIED], distinct)


def read_runs(
    connection: sql.Connection,
    alert_id: str,
    selection: EventSelection,
    size: int,
    after: Position | None = None,
    newest_first: bool = False,
) -> tuple[list[EventRun], int]:
    """Return a page of `size` runs of an alert's selected events, and the number of all runs."""
    numbered = _number_runs(alert_id, selection)
    begins = numbered.c.begins == 1
    total = connection.scalar(sql.select(sql.func.count()).select_from(numbered).where(begins)) or 0
    order = numbered.c.run.desc() if newest_first else numbered.c.run
    starts = sql.select(numbered.c.run).where(begins).order_by(order).limit(size)
    if after:
        place, end = sql.tuple_(numbered.c.event_time, numbered.c.event_id), sql.tuple_(*after)
        starts = starts.where(place < end if newest_first else place > end)
    runs = connection.scalars(starts).all()
    found = _read_run_range(connection, numbered, min(runs), max(runs)) if runs else []
    return found[::-1] if newest_first else found, total


def _read_run_range(
    connection: sql.Connection, numbered: sql.Subquery, first: int, last: int
) -> list[EventRun]:
    """Return the runs with the numbers `first` to `last`, each with its first events."""
    columns = numbered.c
    shown = columns.run.between(first, last)
    counted = (
        sql.select(
            columns.run,
            sql.func.count().label("events"),
            sql.func.max(columns.event_time).label("last"),
            sql.func.count(sql.func.nullif(columns.resource, "").distinct()).label("resources"),
            sql.func.count(sql.func.nullif(columns.source_address, "").distinct()).label("addresses"),
        )
        .where(shown)
        .group_by(columns.run)
        .order_by(columns.run)
    )
    events: dict[int, list[Row]] = {}
    place = sql.func.row_number().over(
        partition_by=columns.run, order_by=(columns.event_time, columns.event_id)
    )
    placed = sql.select(*columns, place.label("place")).where(shown).subquery()
    few = sql.select(*placed.c).where(placed.c.place <= MAX_RUN_EVENTS).order_by(placed.c.run, placed.c.place)
    for row in connection.execute(few).mappings():
        events.setdefault(row["run"], []).append(dict(row))
    return [
        EventRun(
            tuple(map(to_event, events[row["run"]])),
            row["events"],
            row["last"],
            row["resources"],
            row["addresses"],
        )
        for row in connection.execute(counted).mappings()
    ]


def _number_runs(alert_id: str, selection: EventSelection) -> sql.Subquery:
    """Return the selected events with the number of their run; `begins` is 1 for the first of a run."""
    before = [sql.func.lag(column).over(order_by=IN_ORDER) for column in REPEATED]
    same = sql.and_(*(column == value for column, value in zip(REPEATED, before, strict=True)))
    begins = sql.case((same, 0), else_=1).label("begins")
    kept = [
        sql.literal("").label("raw") if column.name == "raw" else column for column in alert_events.columns
    ]
    marked = sql.select(*kept, begins).where(EVENTS.alert_id == alert_id, *selected(selection)).subquery()
    order = (marked.c.event_time, marked.c.event_id)
    run = sql.func.sum(marked.c.begins).over(order_by=order, rows=(None, 0)).label("run")
    return sql.select(*marked.c, run).subquery()


def selected(selection: EventSelection | None) -> list[sql.ColumnElement[bool]]:
    """Return the conditions of a selection of events."""
    if selection is None:
        return []
    found: list[sql.ColumnElement[bool]] = [EVENTS.error_code != ""] if selection.failed else []
    if selection.calls is not None:
        batches = id_batches(sorted(selection.calls))
        found.append(sql.or_(sql.false(), *(sql.tuple_(*CALL).in_(batch) for batch in batches)))
    return found


def _by_code_point(connection: sql.Connection, column: sql.ColumnElement[str]) -> sql.ColumnElement[str]:
    """Return a column with a collation by which both databases sort as Python does."""
    return sql.collate(column, "BINARY" if connection.dialect.name == "sqlite" else "C")
