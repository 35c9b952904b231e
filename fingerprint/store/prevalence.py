"""How many other principals show the same surprise within a day: kept up as alerts are saved, in their transaction.

Example:
    >>> with engine.begin() as connection:
    ...     put(connection, ["77b0e6d1920c4f3e"])         # saved just now; the urgency of others may fall, too
    ['77b0e6d1920c4f3e', '3fa94c1be0d27a58']
    >>> shared_by(connection, "77b0e6d1920c4f3e")
    [('program version', 'aws-cli 2.30 linux', 7)]

Others are counted up to `sharing.MANY`, and a row that has as many is not counted again. So a save touches only those who are
close to it in time and still few, however many show the surprise. What an alert once showed counts for others for good, as its
evidence does, so a count never falls (but by `forget`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import sqlalchemy as sql

from fingerprint.alerting.prevalence import (
    MAX_COUNTED_OTHERS,
    WINDOW_SECONDS,
    SurprisingValue,
    adjust_urgency,
    counts_towards_prevalence,
)
from fingerprint.core.alert import Decision
from fingerprint.store import database
from fingerprint.store.queue_tables import alert_surprises, cases
from fingerprint.store.schema import Row, alerts, insert_into
from fingerprint.store.suppression_tables import shared_surprises as shared

ALERTS_PER_STATEMENT = 100  # of one statement
ATTACK: Decision = "true_positive"

_other = shared.alias("other")
_same_surprise_nearby = (  # another principal's row of the same surprise, within a day
    (_other.c.surprise_id == shared.c.surprise_id)
    & (_other.c.shown_by != shared.c.shown_by)
    & (_other.c.last_at >= shared.c.first_at - WINDOW_SECONDS)
    & (_other.c.first_at <= shared.c.last_at + WINDOW_SECONDS)
)
_same_row = (shared.c.alert_id == alert_surprises.c.alert_id) & (
    shared.c.surprise_id == alert_surprises.c.surprise_id
)
_of_one = alerts.c.alert_id == alert_surprises.c.alert_id
_own_case = alerts.c.alert_id == cases.c.alert_id


def update_prevalence(connection: sql.Connection, alert_ids: Sequence[str]) -> list[str]:
    """Alerts were saved, with their surprises: count who shares them, and weigh urgencies. The alerts whose figures changed."""
    changed: set[str] = set()
    for part in _alert_chunks(alert_ids):
        rows = list(_read_surprises(connection, part))
        _save_surprises(connection, rows)
        touched = _update_counts(connection, _select_nearby(rows))
        changed |= _update_urgencies(connection, touched | set(part))
    return sorted(changed)


def update_decided_prevalence(connection: sql.Connection, alert_ids: Sequence[str]) -> list[str]:
    """Somebody decided on these alerts: what is shared with an attack excuses nobody. The alerts whose figures changed."""
    changed: set[str] = set()
    for part in _alert_chunks(alert_ids):
        rows = list(_read_surprises(connection, part))
        known = sql.select(shared.c.alert_id).where(shared.c.alert_id.in_(part), shared.c.attack)
        before = set(connection.scalars(known))
        news = [row for row in rows if row["attack"] != (row["alert_id"] in before)]
        if news:
            database.acquire_writer_lock(connection)  # whoever saves now is let through first, and counted
            _save_surprises(connection, news)
            changed |= _update_urgencies(connection, _nearby_alerts(connection, news))
    return sorted(changed)


def delete_prevalence(connection: sql.Connection, alert_ids: Sequence[str]) -> list[str]:
    """Alerts are gone: those who shared with them are fewer, however many there were. The alerts whose figures changed."""
    changed: set[str] = set()
    for part in _alert_chunks(alert_ids):
        gone = sql.select(shared).where(shared.c.alert_id.in_(part))
        rows = [dict(row) for row in connection.execute(gone).mappings()]
        connection.execute(sql.delete(shared).where(shared.c.alert_id.in_(part)))
        changed |= _update_urgencies(connection, _update_counts(connection, _select_nearby(rows, full=True)))
    return sorted(changed)


def read_prevalence(connection: sql.Connection, alert_id: str) -> list[tuple[str, str, int]]:
    """Surprises of an alert that others show: feature, value seen, how many others (MANY: or more); the strongest first."""
    query = (
        sql.select(alert_surprises.c.feature, alert_surprises.c.seen, shared.c.others)
        .join_from(alert_surprises, shared, _same_row)
        .where(alert_surprises.c.alert_id == alert_id, shared.c.others > 0)
        .order_by(alert_surprises.c.place)
    )
    return [(feature, seen, others) for feature, seen, others in connection.execute(query)]


def _alert_chunks(alert_ids: Sequence[str]) -> Iterator[list[str]]:
    ids = sorted(set(alert_ids))
    yield from (
        ids[start : start + ALERTS_PER_STATEMENT] for start in range(0, len(ids), ALERTS_PER_STATEMENT)
    )


def _read_surprises(connection: sql.Connection, alert_ids: Collection[str]) -> Iterator[Row]:
    """What these alerts show, of what may be shared."""
    query = sql.select(
        alerts.c.alert_id,
        alerts.c.principal,
        alerts.c.first_event_time,
        alerts.c.last_event_time,
        alert_surprises.c.surprise_id,
        alert_surprises.c.feature,
        sql.func.coalesce(cases.c.decision == ATTACK, sql.false()),
    ).select_from(alerts.join(alert_surprises, _of_one).outerjoin(cases, _own_case))
    for alert_id, principal, first, last, surprise_id, feature, attack in connection.execute(
        query.where(alerts.c.alert_id.in_(alert_ids))
    ):
        if counts_towards_prevalence(feature):
            own = {"alert_id": alert_id, "surprise_id": surprise_id, "shown_by": _principal_digest(principal)}
            yield own | {
                "first_at": _to_epoch_seconds(first),
                "last_at": _to_epoch_seconds(last),
                "attack": bool(attack),
            }


def _save_surprises(connection: sql.Connection, rows: Sequence[Row]) -> None:
    statement = insert_into(connection, shared)
    new = {name: statement.excluded[name] for name in ("first_at", "last_at", "attack")}
    again = statement.on_conflict_do_update(index_elements=["alert_id", "surprise_id"], set_=new)
    if rows:
        connection.execute(again, [row | {"others": 0} for row in rows])


def _select_nearby(rows: Sequence[Row], full: bool = False) -> sql.Select[Any] | None:
    """Rows within a day of these that show the same, with their counts; those that have MANY already only where they may have
    become fewer."""
    if not rows:
        return None
    near = (
        _shares_surprise_nearby(rows)
        if full
        else _shares_surprise_nearby(rows) & (shared.c.others < MAX_COUNTED_OTHERS)
    )
    return sql.select(shared.c.alert_id, shared.c.surprise_id, shared.c.others, _count_others()).where(near)


def _nearby_alerts(connection: sql.Connection, rows: Sequence[Row]) -> set[str]:
    """Alerts within a day of these rows that show the same."""
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
    """Of a row: the other principals that show its surprise within a day of it, MANY at most."""
    beside = (
        sql.select(_other.c.shown_by)
        .where(_same_surprise_nearby)
        .distinct()
        .limit(MAX_COUNTED_OTHERS)
        .correlate(shared)
        .subquery()
    )
    return sql.select(sql.func.count()).select_from(beside).correlate(shared).scalar_subquery()


def _update_counts(connection: sql.Connection, query: sql.Select[Any] | None) -> set[str]:
    """Store the counts that changed; the alerts they belong to."""
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
    """Store the urgency and sharing of these alerts where they changed; which those are."""
    changed: set[str] = set()
    for part in _alert_chunks(list(alert_ids)):
        shown = _read_shown_surprises(connection, part)
        figures = sql.select(alerts.c.alert_id, alerts.c.urgency, alerts.c.urgency_shown, alerts.c.sharing)
        for alert_id, own, *before in connection.execute(figures.where(alerts.c.alert_id.in_(part))).all():
            urgency, sharing = adjust_urgency(own, shown[alert_id])
            if before != [urgency, sharing]:
                one = sql.update(alerts).where(alerts.c.alert_id == alert_id)
                connection.execute(one.values(urgency_shown=urgency, sharing=sharing))
                changed.add(alert_id)
    return changed


def _read_shown_surprises(
    connection: sql.Connection, alert_ids: Collection[str]
) -> dict[str, list[SurprisingValue]]:
    """The surprises of alerts, with how many others show each."""
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


def _principal_digest(principal: str) -> str:
    return blake2b(principal.encode(), digest_size=8).hexdigest()


def _to_epoch_seconds(moment: datetime) -> int:
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
