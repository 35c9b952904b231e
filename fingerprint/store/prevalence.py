"""Prevalence: the number of other principals with the same surprise within a day, updated in the transaction that saves alerts.

Example:
    >>> store.prevalence.of_alert("77b0e6d1920c4f3e")
    [('program version', 'aws-cli 2.30 linux', 7)]

Others are counted up to MAX_COUNTED_OTHERS, and a row with that many is not counted again. So a save touches only few alerts that
are close in time, however many show the surprise. A surprise that an alert once showed counts for others until the alert is
deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import sqlalchemy as sql

from fingerprint.alerting.impact import urgency_floor
from fingerprint.alerting.prevalence import (
    MAX_COUNTED_OTHERS,
    WINDOW_SECONDS,
    SurprisingValue,
    adjust_urgency,
    counts_towards_prevalence,
)
from fingerprint.core.alert import Decision, SurpriseDriver
from fingerprint.store.database import Repository, acquire_writer_lock, reads
from fingerprint.store.rows import principal_span, to_action_impact
from fingerprint.store.schema import Row, alert_surprises, alerts, cases, id_batches, insert_into
from fingerprint.store.schema import shared_surprises as shared

ALERTS_PER_STATEMENT = 100  # of one statement
ATTACK: Decision = "true_positive"

_other = shared.alias("other")
_same_surprise_nearby = (  # another principal's row of the same surprise, within a day
    (_other.c.surprise_id == shared.c.surprise_id)
    & (_other.c.principal_digest != shared.c.principal_digest)
    & (_other.c.last_at >= shared.c.first_at - WINDOW_SECONDS)
    & (_other.c.first_at <= shared.c.last_at + WINDOW_SECONDS)
)
_same_row = (shared.c.alert_id == alert_surprises.c.alert_id) & (
    shared.c.surprise_id == alert_surprises.c.surprise_id
)
_same_alert = alerts.c.alert_id == alert_surprises.c.alert_id
_own_case = alerts.c.alert_id == cases.c.alert_id


class SqlPrevalenceRepository(Repository):
    """Surprises that several principals show."""

    @reads
    def of_alert(self, connection: sql.Connection, alert_id: str) -> list[tuple[str, str, int]]:
        """Return surprises of an alert that others show, the strongest first: feature, value, number of other principals."""
        query = (
            sql.select(alert_surprises.c.feature, alert_surprises.c.seen, shared.c.others)
            .join_from(alert_surprises, shared, _same_row)
            .where(alert_surprises.c.alert_id == alert_id, shared.c.others > 0)
            .order_by(alert_surprises.c.rank)
        )
        return [(feature, seen, others) for feature, seen, others in connection.execute(query)]


def update_prevalence(connection: sql.Connection, alert_ids: Sequence[str]) -> list[str]:
    """Count the principals that share surprises of saved alerts, adjust urgencies, and return the alerts that changed."""
    changed: set[str] = set()
    for part in _alert_chunks(alert_ids):
        rows = list(_read_surprises(connection, part))
        _save_surprises(connection, rows)
        touched = _update_counts(connection, _select_nearby(rows))
        changed |= _update_urgencies(connection, touched | set(part))
    return sorted(changed)


def update_decided_prevalence(connection: sql.Connection, alert_ids: Sequence[str]) -> list[str]:
    """Adjust urgencies after decisions, because a surprise shared with an attack lowers no urgency; return changed alerts."""
    changed: set[str] = set()
    for part in _alert_chunks(alert_ids):
        rows = list(_read_surprises(connection, part))
        known = sql.select(shared.c.alert_id).where(shared.c.alert_id.in_(part), shared.c.attack)
        before = set(connection.scalars(known))
        new = [row for row in rows if row["attack"] != (row["alert_id"] in before)]
        if new:
            acquire_writer_lock(connection)  # a save under way comes first, so that it is counted
            _save_surprises(connection, new)
            changed |= _update_urgencies(connection, _nearby_alerts(connection, new))
    return sorted(changed)


def delete_prevalence(connection: sql.Connection, alert_ids: Sequence[str]) -> list[str]:
    """Delete the surprises of deleted alerts, count for the other alerts again, and return the alerts that changed."""
    changed: set[str] = set()
    for part in _alert_chunks(alert_ids):
        deleted = sql.select(shared).where(shared.c.alert_id.in_(part))
        rows = [dict(row) for row in connection.execute(deleted).mappings()]
        connection.execute(sql.delete(shared).where(shared.c.alert_id.in_(part)))
        changed |= _update_urgencies(connection, _update_counts(connection, _select_nearby(rows, full=True)))
    return sorted(changed)


def _alert_chunks(alert_ids: Sequence[str]) -> Iterator[list[str]]:
    yield from map(list, id_batches(sorted(set(alert_ids)), ALERTS_PER_STATEMENT))


def _read_surprises(connection: sql.Connection, alert_ids: Collection[str]) -> Iterator[Row]:
    """Yield the surprises of these alerts that count towards prevalence."""
    query = sql.select(
        alerts.c.alert_id,
        alerts.c.principal,
        alerts.c.first_event_time,
        alerts.c.last_event_time,
        alert_surprises.c.surprise_id,
        alert_surprises.c.feature,
        sql.func.coalesce(cases.c.decision == ATTACK, sql.false()),
    ).select_from(alerts.join(alert_surprises, _same_alert).outerjoin(cases, _own_case))
    for alert_id, principal, first, last, surprise_id, feature, attack in connection.execute(
        query.where(alerts.c.alert_id.in_(alert_ids))
    ):
        if counts_towards_prevalence(feature):
            own = {"alert_id": alert_id, "surprise_id": surprise_id}
            yield own | principal_span(principal, first, last) | {"attack": bool(attack)}


def _save_surprises(connection: sql.Connection, rows: Sequence[Row]) -> None:
    statement = insert_into(connection, shared)
    new = {name: statement.excluded[name] for name in ("first_at", "last_at", "attack")}
    again = statement.on_conflict_do_update(index_elements=["alert_id", "surprise_id"], set_=new)
    if rows:
        connection.execute(again, [row | {"others": 0} for row in rows])


def _select_nearby(rows: Sequence[Row], full: bool = False) -> sql.Select[Any] | None:
    """Return a query of rows with the same surprise within a day, with their counts; with `full` also rows at the maximum."""
    if not rows:
        return None
    near = (
        _shares_surprise_nearby(rows)
        if full
        else _shares_surprise_nearby(rows) & (shared.c.others < MAX_COUNTED_OTHERS)
    )
    return sql.select(shared.c.alert_id, shared.c.surprise_id, shared.c.others, _count_others()).where(near)


def _nearby_alerts(connection: sql.Connection, rows: Sequence[Row]) -> set[str]:
    """Return the alerts with the same surprise as one of these rows, within a day of it."""
    return (
        set(connection.scalars(sql.select(shared.c.alert_id).where(_shares_surprise_nearby(rows))))
        if rows
        else set()
    )


def _shares_surprise_nearby(rows: Sequence[Row]) -> sql.ColumnElement[bool]:
    first, last = min(row["first_at"] for row in rows), max(row["last_at"] for row in rows)
    near = (shared.c.last_at >= first - WINDOW_SECONDS) & (shared.c.first_at <= last + WINDOW_SECONDS)
    return near & shared.c.surprise_id.in_({row["surprise_id"] for row in rows})


def _count_others() -> sql.ScalarSelect[int]:
    """Return the number of other principals with a row's surprise within a day of it, at most MAX_COUNTED_OTHERS."""
    beside = (
        sql.select(_other.c.principal_digest)
        .where(_same_surprise_nearby)
        .distinct()
        .limit(MAX_COUNTED_OTHERS)
        .correlate(shared)
        .subquery()
    )
    return sql.select(sql.func.count()).select_from(beside).correlate(shared).scalar_subquery()


def _update_counts(connection: sql.Connection, query: sql.Select[Any] | None) -> set[str]:
    """Store the counts that changed, and return their alerts."""
    found = connection.execute(query).all() if query is not None else []
    new = [
        {"a": alert_id, "s": surprise_id, "n": now}
        for alert_id, surprise_id, before, now in found
        if now != before
    ]
    one = (shared.c.alert_id == sql.bindparam("a")) & (shared.c.surprise_id == sql.bindparam("s"))
    if new:
        connection.execute(sql.update(shared).where(one).values(others=sql.bindparam("n")), new)
    return {row["a"] for row in new}


def _update_urgencies(connection: sql.Connection, alert_ids: Collection[str]) -> set[str]:
    """Store the urgency and sharing of these alerts where they changed, and return those alerts."""
    changed: set[str] = set()
    for part in _alert_chunks(list(alert_ids)):
        shown = _read_shown_surprises(connection, part)
        figures = sql.select(
            alerts.c.alert_id,
            alerts.c.urgency,
            alerts.c.impact_of,
            alerts.c.drivers,
            alerts.c.urgency_shown,
            alerts.c.sharing,
        )
        found = connection.execute(figures.where(alerts.c.alert_id.in_(part))).all()
        for alert_id, own, actions, drivers, *before in found:
            floor = urgency_floor(
                map(to_action_impact, actions), (SurpriseDriver(**each) for each in drivers)
            )
            urgency, sharing = adjust_urgency(own, shown[alert_id], floor)
            if before != [urgency, sharing]:
                one = sql.update(alerts).where(alerts.c.alert_id == alert_id)
                connection.execute(one.values(urgency_shown=urgency, sharing=sharing))
                changed.add(alert_id)
    return changed


def _read_shown_surprises(
    connection: sql.Connection, alert_ids: Collection[str]
) -> dict[str, list[SurprisingValue]]:
    """Return the surprises of alerts, with how many others show each."""
    query = sql.select(
        alert_surprises.c.alert_id,
        alert_surprises.c.feature,
        alert_surprises.c.surprise,
        sql.func.coalesce(shared.c.others, 0),
        alert_surprises.c.seen,
        sql.exists().where(_same_surprise_nearby, _other.c.attack).correlate(shared),
    ).outerjoin_from(alert_surprises, shared, _same_row)
    found: dict[str, list[SurprisingValue]] = defaultdict(list)
    for alert_id, *values in connection.execute(query.where(alert_surprises.c.alert_id.in_(alert_ids))):
        found[alert_id].append(SurprisingValue(*values))
    return found
