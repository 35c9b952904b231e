"""Incidents: list, read, decide them as one, and split or join them by hand.

Example:
    >>> page = store.incidents.page(IncidentFilter(status="new"), size=50)
    >>> whole = store.incidents.get(page.rows[0].incident_id)
    >>> store.incidents.change(whole.row.incident_id, whole.row.revision, SetDisposition("true_positive", "a key"), by="maria")
    [AlertRevision('3fa94c1be0d27a58', version=1, events=9), ...]
    >>> edit = store.incidents.split(whole.row.incident_id, [whole.alerts[3].row.alert_id], by="maria")
    >>> store.incidents.undo(edit.edit_id, by="maria")

- A change of an incident changes all of its alerts, or none, in one transaction.
- It names the revision that the analyst saw: a digest of the incident's alerts, their versions and numbers of events.
- An alert that joins or grows afterwards is open, and so is its incident.
- An incident is found by the id of any of its alerts, or by the first characters of the id.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

import sqlalchemy as sql

from fingerprint.core.case import (
    MAX_PAGE_SIZE,
    AlertRevision,
    AssignCase,
    AuditEntry,
    CaseAction,
    CaseNote,
    QueueRow,
    SetDisposition,
    SetStatus,
)
from fingerprint.core.errors import Conflict, FingerprintError, NotFound
from fingerprint.core.incident import (
    EditKind,
    Incident,
    IncidentAlert,
    IncidentEdit,
    IncidentFilter,
    IncidentOrder,
    IncidentPage,
    IncidentRow,
    IncidentStatus,
    OtherRecord,
)
from fingerprint.core.incident_rule import MAX_ALERTS, Membership
from fingerprint.core.sanitize import index_key, storable
from fingerprint.store import incident_groups, incident_links, page_cursor
from fingerprint.store.audit import add_audit_entry, mark_changed
from fingerprint.store.cases import change_cases, finish_changes, insert_note
from fingerprint.store.database import Locking, Repository, reads, writes
from fingerprint.store.evidence import resolve_alert_id
from fingerprint.store.query_conditions import has_principal
from fingerprint.store.queue import read_queue_rows
from fingerprint.store.rows import is_closed
from fingerprint.store.schema import (
    Condition,
    Row,
    alerts,
    audit_entries,
    cases,
    id_batches,
    incident_alerts,
    incident_edits,
    incidents,
    notes,
)
from fingerprint.store.suppression_hits import is_hidden

MAX_TITLES = 3  # of an incident in a list
ORDERS: Mapping[
    IncidentOrder, tuple[tuple[sql.Column[Any], bool], ...]
] = {  # with True the largest comes first
    "urgency": (
        (incidents.c.urgency, True),
        (incidents.c.first_event_time, False),
        (incidents.c.incident_id, False),
    ),
    "newest": ((incidents.c.last_event_time, True), (incidents.c.incident_id, False)),
    "oldest": ((incidents.c.first_event_time, False), (incidents.c.incident_id, False)),
}
_OPEN: Condition = incidents.c.open_alerts > 0
_TOUCHED: Condition = incidents.c.touched_alerts > 0
STATUS_CONDITIONS: Mapping[str, Sequence[Condition]] = {
    "open": [_OPEN],
    "new": [_OPEN, ~_TOUCHED],
    "in_progress": [_OPEN, _TOUCHED],
    "closed": [~_OPEN],
    "all": [],
}


class SqlIncidentRepository(Repository):
    """Incidents and their alerts."""

    @reads
    def page(
        self,
        connection: sql.Connection,
        incident_filter: IncidentFilter,
        order: IncidentOrder = "urgency",
        size: int = 50,
        cursor: str | None = None,
    ) -> IncidentPage:
        """Return a page of incidents and the number of all; incidents with only suppressed alerts are left out.

        Raise FingerprintError for a cursor that no page of this filter and order had, or a size above MAX_PAGE_SIZE.
        """
        if not 0 < size <= MAX_PAGE_SIZE:
            raise FingerprintError(f"a page has 1 to {MAX_PAGE_SIZE} incidents, not {size}")
        conditions = [*_conditions(incident_filter, self._session.now())]
        columns, search = ORDERS[order], (incident_filter, order)
        query = sql.select(incidents).where(*conditions).order_by(*page_cursor.order_by(columns))
        if cursor is not None:
            query = query.where(
                page_cursor.after(columns, page_cursor.decode_cursor(cursor, columns, search))
            )
        found = [dict(row) for row in connection.execute(query.limit(size + 1)).mappings()]
        total = connection.scalar(sql.select(sql.func.count()).select_from(incidents).where(*conditions)) or 0
        last = [found[size - 1][column.name] for column, _ in columns] if len(found) > size else None
        more = page_cursor.encode_cursor(last, search) if last else None
        return IncidentPage(tuple(_read_rows(connection, found[:size])), total, more)

    @reads
    def counts(self, connection: sql.Connection, incident_filter: IncidentFilter) -> dict[str, int]:
        """Return the numbers of incidents that are `new`, `in_progress`, `open` and `closed`; the filter's status is ignored."""
        state = sql.case((~_OPEN, "closed"), (_TOUCHED, "in_progress"), else_="new")
        conditions = _conditions(incident_filter, self._session.now(), status=False)
        query = sql.select(state.label("state"), sql.func.count()).select_from(incidents).where(*conditions)
        found: dict[str, int] = dict(map(tuple, connection.execute(query.group_by("state"))))
        new, started = found.get("new", 0), found.get("in_progress", 0)
        return {"open": new + started, "new": new, "in_progress": started, "closed": found.get("closed", 0)}

    @reads
    def count(self, connection: sql.Connection, incident_filter: IncidentFilter) -> int:
        """Return the number of a filter's incidents; incidents with only suppressed alerts are left out."""
        conditions = _conditions(incident_filter, self._session.now())
        query = sql.select(sql.func.count()).select_from(incidents).where(*conditions)
        return connection.scalar(query) or 0

    @reads
    def get(self, connection: sql.Connection, id_or_prefix: str) -> Incident:
        """Return the incident of an alert, given the alert's id or its first characters. Raise NotFound without one."""
        return _read_incident(connection, _resolve(connection, id_or_prefix), self._session.now())

    @reads
    def other_records(self, connection: sql.Connection, alert_id: str) -> list[OtherRecord]:
        """Return the alerts with other accounts' records of an alert's calls, and whom these records name."""
        return incident_links.read_other_records(connection, storable(alert_id))

    @reads
    def activity(
        self, connection: sql.Connection, incident_id: str, limit: int = 500
    ) -> tuple[list[AuditEntry], list[CaseNote]]:
        """Return the newest audit entries and notes of an incident's alerts, the newest first."""
        members = sorted(incident_groups.members_of(connection, {_resolve(connection, incident_id)}))
        targets = [index_key(alert_id) for alert_id in members]
        entries = sql.select(audit_entries).where(audit_entries.c.target.in_(targets))
        written = sql.select(notes).where(notes.c.alert_id.in_(members))
        found = connection.execute(entries.order_by(audit_entries.c.number.desc()).limit(limit)).mappings()
        texts = connection.execute(
            written.order_by(notes.c.at.desc(), notes.c.note_id).limit(limit)
        ).mappings()
        return [AuditEntry(**row) for row in found], [CaseNote(**row) for row in texts]

    @writes(Locking.ROW_VERSIONS)
    def change(
        self,
        connection: sql.Connection,
        incident_id: str,
        revision: str,
        action: CaseAction,
        by: str,
        alert_ids: Collection[str] | None = None,
    ) -> list[AlertRevision]:
        """Change all alerts of an incident that the action concerns, or none; return the changed ones in their new state.

        A decision concerns alerts that are open or decided otherwise, a status open ones, a reopening decided ones. `alert_ids`
        restricts the change to some alerts. Raise NotFound without the incident; Conflict if it has changed since `revision`, or
        if nothing is left to change.
        """
        name = _resolve(connection, incident_id)
        members = _read_members(connection, [name])[name]
        if revision_of(members) != revision:
            raise Conflict(_describe_difference(members))
        concerned = [
            AlertRevision(row["alert_id"], row["version"], row["event_count"])
            for row in members
            if _concerns(action, row) and (alert_ids is None or row["alert_id"] in alert_ids)
        ]
        if not concerned:
            raise Conflict("nothing is left to change: every alert of the incident is so already")
        outcomes = change_cases(connection, concerned, action, by, self._session.now(), name)
        for each in outcomes:
            if not each.done:  # the error rolls the other changes back
                raise Conflict(f"alert {each.alert_id}: {each.reason}")
        finish_changes(connection, [each.alert_id for each in outcomes])
        return [seen._replace(version=each.version) for seen, each in zip(concerned, outcomes, strict=True)]

    @writes(Locking.ROW_VERSIONS)
    def add_note(self, connection: sql.Connection, incident_id: str, text: str, by: str) -> int:
        """Write a note on each alert of an incident, and return the number of alerts."""
        members = sorted(incident_groups.members_of(connection, {_resolve(connection, incident_id)}))
        now = self._session.now()
        for alert_id in members:
            insert_note(connection, alert_id, text, by, now)
        finish_changes(connection, members)
        return len(members)

    # --- splitting and joining ----------------------------------------------------------------------------------------

    @writes(Locking.SERIALIZED)
    def split(
        self, connection: sql.Connection, incident_id: str, alert_ids: Sequence[str], by: str
    ) -> IncidentEdit:
        """Split alerts off an incident, into one of their own.

        Raise Conflict if one of them has left the incident, FingerprintError if there are none or they are all of its alerts.
        """
        name = _resolve(connection, incident_id)
        members = incident_groups.members_of(connection, {name})
        chosen = list(dict.fromkeys(storable(alert_id) for alert_id in alert_ids))
        if missing := [alert_id for alert_id in chosen if alert_id not in members]:
            raise Conflict(f"alert {missing[0]!r} is not in this incident any more: look again")
        if not 0 < len(chosen) < len(members):
            raise FingerprintError("split off one or more alerts, and leave at least one")
        return self._edit(connection, "split", chosen, "", by, {"from": name})

    @writes(Locking.SERIALIZED)
    def join(self, connection: sql.Connection, incident_id: str, other_id: str, by: str) -> IncidentEdit:
        """Join another incident with this one.

        Raise FingerprintError if they are one already, or would have more than MAX_ALERTS alerts.
        """
        name, other = _resolve(connection, incident_id), _resolve(connection, other_id)
        if name == other:
            raise FingerprintError("both alerts are in the same incident already")
        if (many := len(incident_groups.members_of(connection, {name, other}))) > MAX_ALERTS:
            raise FingerprintError(f"an incident has at most {MAX_ALERTS} alerts, and these two have {many}")
        return self._edit(connection, "join", [other], name, by, {"with": name})

    @writes(Locking.SERIALIZED)
    def undo(self, connection: sql.Connection, edit_id: str, by: str) -> IncidentEdit:
        """Undo a split or a join. Raise NotFound if there is none, Conflict if it is undone already."""
        found = incident_groups.read_edits_by_id(connection, [storable(edit_id)])
        if not found:
            raise NotFound("there is no such split or join: one of its alerts may have been removed")
        if found[0].undone:
            raise Conflict("it is undone already")
        own = incident_edits.c.edit_id == found[0].edit_id
        connection.execute(sql.update(incident_edits).where(own).values(undone=True))
        detail = {"edit": found[0].edit_id, "kind": found[0].kind}
        self._regroup(connection, found[0], by, "incident.undo", detail)
        return found[0]

    def _edit(
        self,
        connection: sql.Connection,
        kind: EditKind,
        alert_ids: Sequence[str],
        with_alert: str,
        by: str,
        detail: Mapping[str, str],
    ) -> IncidentEdit:
        edit = IncidentEdit(
            secrets.token_hex(8), kind, tuple(alert_ids), with_alert, self._session.now(), storable(by)
        )
        shared: Row = {
            "edit_id": edit.edit_id,
            "kind": kind,
            "with_alert": with_alert,
            "at": edit.at,
            "by": edit.by,
        }
        rows = [shared | {"place": place, "alert_id": alert_id} for place, alert_id in enumerate(alert_ids)]
        connection.execute(sql.insert(incident_edits), rows)
        self._regroup(connection, edit, by, f"incident.{kind}", {**detail, "edit": edit.edit_id})
        return edit

    def _regroup(
        self, connection: sql.Connection, edit: IncidentEdit, by: str, action: str, detail: Mapping[str, str]
    ) -> None:
        """Compute the incidents of an edit's alerts again, and record the edit in the audit."""
        concerned = {*edit.alert_ids, *([edit.with_alert] if edit.with_alert else [])}
        regrouped = incident_groups.regroup(connection, concerned)
        for alert_id in edit.alert_ids:
            add_audit_entry(connection, self._session.now(), by, action, alert_id, detail)
        incident_groups.refresh_incidents(connection, regrouped.incidents)
        mark_changed(connection, [*regrouped.moved, *edit.alert_ids])


def revision_of(members: Iterable[Mapping[str, Any]]) -> str:
    """Return a digest (16 characters) of an incident's alerts, their versions and their numbers of events."""
    seen = sorted((row["alert_id"], row["version"], row["event_count"]) for row in members)
    return blake2b(json.dumps(seen).encode(), digest_size=8).hexdigest()


def _resolve(connection: sql.Connection, id_or_prefix: str) -> str:
    """Return the incident of an alert."""
    alert_id = resolve_alert_id(connection, id_or_prefix)
    found = incident_groups.read_memberships(connection, [alert_id])
    return found[alert_id].incident_id


def _concerns(action: CaseAction, member: Mapping[str, Any]) -> bool:
    """Return whether an action changes an alert of an incident."""
    if isinstance(action, SetDisposition):
        return not is_closed(member) or (member["decision"], member["duplicate_of"]) != (
            action.decision,
            action.duplicate_of,
        )
    if isinstance(action, AssignCase):
        return bool((member["assignee"] or "") != storable(action.to))
    if isinstance(action, SetStatus):
        return not is_closed(member) and bool(member["in_progress"]) != (action.status == "in_progress")
    return member["decision"] is not None


def _describe_difference(members: Sequence[Mapping[str, Any]]) -> str:
    newest = max((row for row in members if row["at"] is not None), key=lambda row: row["at"], default=None)
    who = f" ({newest['by']} changed it last)" if newest else ""
    return f"the incident is not as you saw it: an alert of it was changed, has grown, joined or left{who}"


# --- reading ----------------------------------------------------------------------------------------------------------


def _conditions(
    incident_filter: IncidentFilter, now: datetime, status: bool = True
) -> list[sql.ColumnElement[bool]]:
    found = [*STATUS_CONDITIONS[incident_filter.status]] if status else []
    if incident_filter.least_urgency > 0:
        found.append(incidents.c.urgency >= incident_filter.least_urgency)
    of_alerts = sql.select(incident_alerts.c.incident_id)
    if incident_filter.principal:
        own = of_alerts.join_from(incident_alerts, alerts, alerts.c.alert_id == incident_alerts.c.alert_id)
        found.append(
            incidents.c.incident_id.in_(own.where(has_principal(storable(incident_filter.principal))))
        )
    if incident_filter.assignee is not None:
        taken = of_alerts.join_from(incident_alerts, cases, cases.c.alert_id == incident_alerts.c.alert_id)
        if incident_filter.assignee:
            assigned = taken.where(cases.c.assignee == storable(incident_filter.assignee))
            found.append(incidents.c.incident_id.in_(assigned))
        else:
            found.append(incidents.c.incident_id.not_in(taken.where(cases.c.assignee != "")))
    return [*found, incidents.c.incident_id.not_in(_hidden_incidents(now))]


def _hidden_incidents(now: datetime) -> sql.Select[Any]:
    """Return a query of the incidents with only suppressed alerts."""
    return (
        sql.select(incident_alerts.c.incident_id)
        .join_from(incident_alerts, alerts, alerts.c.alert_id == incident_alerts.c.alert_id)
        .join(incidents, incidents.c.incident_id == incident_alerts.c.incident_id)
        .where(is_hidden(now))
        .group_by(incident_alerts.c.incident_id, incidents.c.alerts)
        .having(sql.func.count() == incidents.c.alerts)
        .correlate(None)
    )


def _read_members(connection: sql.Connection, incident_ids: Collection[str]) -> dict[str, list[Row]]:
    """Return the alerts of incidents with their cases, the gravest first."""
    query = (
        sql.select(
            incident_alerts.c.incident_id,
            *(alerts.c[name] for name in ("alert_id", "principal", "title", "tactics", "event_count")),
            alerts.c.urgency_shown.label("urgency"),
            alerts.c.first_event_time,
            sql.func.coalesce(cases.c.version, 0).label("version"),
            *(
                cases.c[name]
                for name in ("assignee", "decision", "decided_events", "duplicate_of", "in_progress")
            ),
            cases.c.at,
            cases.c.by,
        )
        .join_from(incident_alerts, alerts, alerts.c.alert_id == incident_alerts.c.alert_id)
        .outerjoin(cases, cases.c.alert_id == alerts.c.alert_id)
        .order_by(alerts.c.urgency_shown.desc(), alerts.c.first_event_time, alerts.c.alert_id)
    )
    found: dict[str, list[Row]] = defaultdict(list)
    for batch in id_batches(sorted(incident_ids)):
        for row in connection.execute(query.where(incident_alerts.c.incident_id.in_(batch))).mappings():
            found[row["incident_id"]].append(dict(row))
    return found


def _read_rows(connection: sql.Connection, found: Sequence[Row]) -> list[IncidentRow]:
    members = _read_members(connection, [row["incident_id"] for row in found])
    return [_to_row(row, members[row["incident_id"]]) for row in found]


def _to_row(row: Row, members: Sequence[Row]) -> IncidentRow:
    status: IncidentStatus = (
        "closed" if not row["open_alerts"] else "in_progress" if row["touched_alerts"] else "new"
    )
    closed = [each for each in members if is_closed(each)]
    return IncidentRow(
        incident_id=row["incident_id"],
        revision=revision_of(members),
        status=status,
        urgency=row["urgency"],
        first_event_time=row["first_event_time"],
        last_event_time=row["last_event_time"],
        stored_at=row["stored_at"] or row["last_event_time"],
        alerts=row["alerts"],
        open_alerts=row["open_alerts"],
        principals=_distinct(each["principal"] for each in members),
        titles=_distinct(each["title"] for each in members)[:MAX_TITLES],
        tactics=_distinct(tactic for each in members for tactic in each["tactics"]),
        assignees=_distinct(each["assignee"] for each in members if each["assignee"]),
        decisions=_distinct(each["decision"] for each in closed),
    )


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))


def _read_incident(connection: sql.Connection, incident_id: str, now: datetime) -> Incident:
    own = sql.select(incidents).where(incidents.c.incident_id == incident_id)
    row = dict(connection.execute(own).mappings().one())
    members = sorted(incident_groups.members_of(connection, {incident_id}))
    memberships = incident_groups.read_memberships(connection, members)
    rows = sorted(read_queue_rows(connection, members, now), key=_in_time)
    listed = tuple(_to_alert(each, memberships[each.alert_id]) for each in rows)
    edits = incident_groups.read_edits(connection, members)
    return Incident(_read_rows(connection, [row])[0], listed, tuple(reversed(edits)))


def _to_alert(row: QueueRow, membership: Membership) -> IncidentAlert:
    """Return an alert of an incident; in a link by principal, the name replaces the digest."""
    _, reason, value, with_alert = membership
    return IncidentAlert(row, reason, row.principal if reason == "principal" else value, with_alert)


def _in_time(row: QueueRow) -> tuple[datetime, str]:
    return row.first_event_time, row.alert_id
