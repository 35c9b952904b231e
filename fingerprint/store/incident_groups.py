"""Incidents of alerts: computed in the transaction that saves alerts, and again when a person changes them.

Example:
    >>> regrouped = update_incidents(connection, alert_rows, event_rows, issue_rows, known={})
    >>> refresh_incidents(connection, regrouped.incidents)
    >>> read_memberships(connection, ["3fa94c1be0d27a58"])["3fa94c1be0d27a58"].incident_id
    '3fa94c1be0d27a58'

The rule is in `core.incident_rule`. A save reads the saved alerts, the alerts near them that share a value
(`store.incident_links`), and the members of their incidents. These are few, so the cost does not depend on the number of stored
alerts. A deleted alert leaves its incident, but counts of principals stay as they were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sql

from fingerprint.core.incident import IncidentEdit
from fingerprint.core.incident_rule import (
    MAX_ALERTS,
    Membership,
    group_alerts,
)
from fingerprint.store import incident_links
from fingerprint.store.query_conditions import OPEN
from fingerprint.store.schema import (
    Row,
    alerts,
    cases,
    execute_batches,
    id_batches,
    incident_alerts,
    incident_edits,
    incidents,
    replace_into,
)

ALERTS_PER_STATEMENT = 100
MAX_NEARBY_ALERTS = 2_000  # alerts read for one alert, if incidents were cut by hand or by their size


class Regrouped(NamedTuple):
    """The stored alerts that moved to another incident, and the incidents whose figures must be computed again."""

    moved: set[str]
    incidents: set[str]


def update_incidents(
    connection: sql.Connection,
    saved: Sequence[Row],
    events: Iterable[Row],
    issues: Sequence[Row],
    known: Collection[str],
) -> Regrouped:
    """Compute the incidents of saved alerts again. Their figures are left to `refresh_incidents`, the last step of a save.

    `known` are alerts that were stored before. `issues` may belong to such alerts: a call that issued a key may be saved after
    the alert that used the key.
    """
    first_at = {row["alert_id"]: row["first_event_time"] for row in saved}
    incident_links.save_links(connection, saved, events, known)
    late = incident_links.alerts_with_keys(connection, {row["issued_key"] for row in issues})
    extended = incident_links.extend_chains(connection, {*first_at, *late})
    touched = {*first_at, *(late & extended)}
    beginning = datetime.min.replace(tzinfo=UTC)
    in_order = sorted(touched, key=lambda alert_id: (first_at.get(alert_id, beginning), alert_id))
    found = Regrouped(set(), set())
    for part in id_batches(in_order, ALERTS_PER_STATEMENT):
        regrouped = regroup(connection, part, recount=True)
        found.moved.update(regrouped.moved)
        found.incidents.update(regrouped.incidents)
    return found


def regroup(connection: sql.Connection, alert_ids: Collection[str], recount: bool = False) -> Regrouped:
    """Compute the incidents of these alerts, and of all alerts that they may affect, again."""
    seeds = set(alert_ids)
    if recount:
        seeds |= incident_links.mark_common_values(connection, alert_ids)
    members, edits = _affected_alerts(connection, seeds)
    before = read_memberships(connection, members)
    after = group_alerts(incident_links.read_links(connection, members), edits, MAX_ALERTS)
    new = {alert_id: each for alert_id, each in after.items() if before.get(alert_id) != each}
    rows = [{"alert_id": alert_id, **each._asdict()} for alert_id, each in sorted(new.items())]
    execute_batches(connection, replace_into(connection, incident_alerts), rows)
    touched = {each.incident_id for each in new.values()}
    touched |= {before[alert_id].incident_id for alert_id in new if alert_id in before}
    touched |= {after[alert_id].incident_id for alert_id in alert_ids if alert_id in after}
    moved = {
        alert_id
        for alert_id, each in new.items()
        if alert_id in before and before[alert_id].incident_id != each.incident_id
    }
    return Regrouped(moved, touched)


def read_memberships(connection: sql.Connection, alert_ids: Collection[str]) -> dict[str, Membership]:
    """Return the incident of each of these alerts, and its link there."""
    columns = (incident_alerts.c.alert_id, *(incident_alerts.c[name] for name in Membership._fields))
    queries = (
        sql.select(*columns).where(incident_alerts.c.alert_id.in_(batch))
        for batch in id_batches(sorted(alert_ids))
    )
    return {row[0]: Membership(*row[1:]) for query in queries for row in connection.execute(query)}


def members_of(connection: sql.Connection, incident_ids: Collection[str]) -> set[str]:
    """Return all alerts of these incidents."""
    queries = (
        sql.select(incident_alerts.c.alert_id).where(incident_alerts.c.incident_id.in_(batch))
        for batch in id_batches(sorted(incident_ids))
    )
    return {alert_id for query in queries for alert_id in connection.scalars(query)}


def incidents_of(connection: sql.Connection, alert_ids: Collection[str]) -> set[str]:
    """Return the incidents of these alerts."""
    return {each.incident_id for each in read_memberships(connection, alert_ids).values()}


def refresh_incidents_of(connection: sql.Connection, alert_ids: Collection[str]) -> None:
    """Compute the figures of the incidents of these alerts again.

    While this transaction waits for their locks, a save may move an alert to another incident: that one is locked and computed
    as well.
    """
    locked: set[str] = set()
    while new := incidents_of(connection, alert_ids) - locked:
        _lock_incidents(connection, new)
        locked |= new
    refresh_incidents(connection, locked)


def refresh_incidents(connection: sql.Connection, incident_ids: Collection[str]) -> None:
    """Compute the figures of incidents again, and delete those without an alert.

    Their rows are locked first, in the order of ids. So if two transactions change alerts of one incident, the second one counts
    after the first one's changes.
    """
    _lock_incidents(connection, incident_ids)
    for batch in id_batches(sorted(incident_ids)):
        found = [dict(row) for row in connection.execute(_figures(batch)).mappings()]
        execute_batches(connection, replace_into(connection, incidents), found)
        gone = set(batch) - {row["incident_id"] for row in found}
        if gone:
            connection.execute(sql.delete(incidents).where(incidents.c.incident_id.in_(gone)))


def _lock_incidents(connection: sql.Connection, incident_ids: Collection[str]) -> None:
    for batch in id_batches(sorted(incident_ids)):
        locked = sql.select(incidents.c.incident_id).where(incidents.c.incident_id.in_(batch))
        connection.execute(locked.order_by(incidents.c.incident_id).with_for_update()).all()


def _figures(incident_ids: Sequence[str]) -> sql.Select[Any]:
    """Return a query for rows of `incidents`, from their alerts and cases."""
    touched = ~OPEN | sql.func.coalesce(cases.c.in_progress, sql.false())
    source = incident_alerts.join(alerts, alerts.c.alert_id == incident_alerts.c.alert_id)
    source = source.outerjoin(cases, cases.c.alert_id == alerts.c.alert_id)
    return (
        sql.select(
            incident_alerts.c.incident_id,
            sql.func.count().label("alerts"),
            sql.func.sum(sql.case((OPEN, 1), else_=0)).label("open_alerts"),
            sql.func.sum(sql.case((touched, 1), else_=0)).label("touched_alerts"),
            sql.func.max(alerts.c.urgency_shown).label("urgency"),
            sql.func.min(alerts.c.first_event_time).label("first_event_time"),
            sql.func.max(alerts.c.last_event_time).label("last_event_time"),
            sql.func.min(alerts.c.stored_at).label("stored_at"),
        )
        .select_from(source)
        .where(incident_alerts.c.incident_id.in_(incident_ids))
        .group_by(incident_alerts.c.incident_id)
    )


def _affected_alerts(
    connection: sql.Connection, seeds: Collection[str]
) -> tuple[set[str], list[IncidentEdit]]:
    """Return these alerts, the alerts near them that share a value, and all alerts of their incidents, with all their edits.

    An incident that was edited or has reached the largest size is separated from alerts near it. Those are included too, because
    the place of the cut may change.
    """
    members = set(seeds) | incident_links.nearby_alerts(connection, seeds)
    edits: list[IncidentEdit] = []
    while True:
        found = read_memberships(connection, members)
        members |= members_of(connection, {each.incident_id for each in found.values()})
        edits = read_edits(connection, members)
        sizes: dict[str, int] = defaultdict(int)
        for each in read_memberships(connection, members).values():
            sizes[each.incident_id] += 1
        full = len(members) > MAX_ALERTS or max(sizes.values(), default=0) >= MAX_ALERTS
        partners = {alert_id for edit in edits for alert_id in (*edit.alert_ids, edit.with_alert) if alert_id}
        partners |= incident_links.alerts_with_the_same_new_action(connection, members)
        more = partners | (incident_links.nearby_alerts(connection, members) if edits or full else set())
        if more <= members or len(members) > MAX_NEARBY_ALERTS:
            return members, edits
        members |= more


def read_edits(connection: sql.Connection, alert_ids: Collection[str]) -> list[IncidentEdit]:
    """Return the edits of any of these alerts, the oldest first."""
    table = incident_edits.c
    ids: set[str] = set()
    for batch in id_batches(sorted(alert_ids)):
        query = sql.select(table.edit_id).where(table.alert_id.in_(batch) | table.with_alert.in_(batch))
        ids.update(connection.scalars(query))
    return read_edits_by_id(connection, ids)


def read_edits_by_id(connection: sql.Connection, edit_ids: Collection[str]) -> list[IncidentEdit]:
    """Return these edits, the oldest first."""
    found: dict[str, list[sql.RowMapping]] = defaultdict(list)
    table = incident_edits.c
    for batch in id_batches(sorted(edit_ids)):
        query = sql.select(incident_edits).where(table.edit_id.in_(batch)).order_by(table.place)
        for row in connection.execute(query).mappings():
            found[row["edit_id"]].append(row)
    edits = [
        IncidentEdit(
            edit_id,
            rows[0]["kind"],
            tuple(row["alert_id"] for row in rows),
            rows[0]["with_alert"],
            rows[0]["at"],
            rows[0]["by"],
            rows[0]["undone"],
        )
        for edit_id, rows in found.items()
    ]
    return sorted(edits, key=lambda each: (each.at, each.edit_id))
