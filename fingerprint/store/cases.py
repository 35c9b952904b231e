"""Cases: the decisions, assignments and notes of analysts on alerts.

Example:
    >>> revision = AlertRevision("397edb7b6806", version=0)
    >>> store.cases.change([revision], AssignCase("maria"), by="maria")[0].done
    True
    >>> store.cases.change([revision], AssignCase("kim"), by="kim")
    [ActionOutcome(alert_id='397edb7b6806', done=False, version=1, reason='maria changed it since')]

A change is an UPDATE of the version that was seen, or an INSERT if the alert has no case yet, so that the database accepts only
one of two concurrent changes. Rows are changed in the order of their ids, so that two changes of the same alerts never deadlock.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sql

from fingerprint.core.alert import Decision, Disposition
from fingerprint.core.case import (
    MAX_NOTE_LENGTH,
    MAX_PAGE_SIZE,
    ActionOutcome,
    AlertRevision,
    AssignCase,
    CaseAction,
    CaseNote,
    ReopenCase,
    SetDisposition,
    SetStatus,
    UndoDecision,
    current_dispositions,
)
from fingerprint.core.errors import FingerprintError, NotFound
from fingerprint.core.sanitize import MAX_KEY_LENGTH, storable
from fingerprint.store import incident_groups, prevalence
from fingerprint.store.audit import add_audit_entry, mark_changed
from fingerprint.store.database import Locking, Repository, reads, writes
from fingerprint.store.evidence import resolve_alert_id
from fingerprint.store.filters import ALERTS_WITH_CASES
from fingerprint.store.rows import DISPOSITION_COLUMNS, is_closed
from fingerprint.store.schema import Row, alert_events, alerts, cases, dispositions, insert_into, notes

_MINIMAL_STEP = timedelta(microseconds=1)
_OWN_DUPLICATE = "it cannot be a duplicate of itself, or of its own duplicate"
_CASE_COLUMNS = tuple(column for column in cases.columns if column.name != "alert_id")


class SqlCaseRepository(Repository):
    """Cases, their dispositions and notes. Rows have versions instead of a common lock, so no change waits for the scorer."""

    @writes(Locking.ROW_VERSIONS)
    def change(
        self, connection: sql.Connection, revisions: Sequence[AlertRevision], action: CaseAction, by: str
    ) -> list[ActionOutcome]:
        """Change each alert or leave it, and return the outcomes in their order.

        Raise FingerprintError for a change that no alert can have.
        """
        if len(revisions) > MAX_PAGE_SIZE:
            raise FingerprintError(
                f"at most {MAX_PAGE_SIZE} alerts are changed at once, not {len(revisions)}"
            )
        outcomes = change_cases(connection, revisions, action, by, self._session.now())
        finish_changes(connection, [outcome.alert_id for outcome in outcomes if outcome.done])
        return outcomes

    @writes(Locking.ROW_VERSIONS)
    def add_disposition(self, connection: sql.Connection, disposition: Disposition) -> None:
        """Add a disposition, whatever version its case has; the newest counts, and a repeat changes nothing.

        Raise FingerprintError if the alert does not exist, or the other alert that it is a duplicate of does not.
        """
        new = _with_full_ids(connection, disposition)
        if not _insert_disposition(connection, new, _decided_before(connection, new)):
            return
        detail = {"decision": new.decision, "why": new.why, "duplicate_of": new.duplicate_of}
        add_audit_entry(connection, new.at, new.by, "alert.decide", new.alert_id, detail)
        row = _decision_columns(new) | {"at": new.at, "by": storable(new.by), "responded_at": new.at}
        statement = insert_into(connection, cases).values(alert_id=new.alert_id, version=1, **row)
        older = cases.c.decided_at.is_(None) | (cases.c.decided_at <= new.at)
        again = row | {"version": cases.c.version + 1, "responded_at": _first_response(new.at)}
        connection.execute(
            statement.on_conflict_do_update(index_elements=["alert_id"], set_=again, where=older)
        )
        finish_changes(connection, [new.alert_id])

    @reads
    def dispositions(self, connection: sql.Connection, alert_id: str | None = None) -> list[Disposition]:
        """Return all dispositions or those of one alert, the oldest first."""
        return _read_dispositions(connection, alert_id)

    @reads
    def current_decisions(self, connection: sql.Connection) -> dict[str, Decision]:
        """Return the decision in force of each decided alert, by id."""
        return read_current_decisions(connection)

    @writes(Locking.ROW_VERSIONS)
    def add_note(self, connection: sql.Connection, alert_id: str, text: str, by: str) -> CaseNote:
        """Add a note, which sets the alert in progress. Raise FingerprintError without the alert, or for empty or long text."""
        note = insert_note(connection, alert_id, text, by, self._session.now())
        finish_changes(connection, [note.alert_id])
        return note

    @writes(Locking.ROW_VERSIONS)
    def add_notes(
        self, connection: sql.Connection, revisions: Sequence[AlertRevision], text: str, by: str
    ) -> list[ActionOutcome]:
        """Add the same note to each alert that exists, and return the outcomes in their order.

        A note changes no version, so it conflicts with nothing. Raise FingerprintError for an empty or too long text.
        """
        now, noted = self._session.now(), set()
        for alert_id in sorted({storable(each.alert_id) for each in revisions}):
            with suppress(NotFound):
                noted.add(insert_note(connection, alert_id, text, by, now).alert_id)
        finish_changes(connection, sorted(noted))
        return [
            ActionOutcome(each.alert_id, True, each.version)
            if storable(each.alert_id) in noted
            else _missing_outcome(each.alert_id)
            for each in revisions
        ]

    @reads
    def notes(self, connection: sql.Connection, alert_id: str) -> list[CaseNote]:
        """Return the notes of an alert, the oldest first."""
        query = sql.select(notes).where(notes.c.alert_id == storable(alert_id))
        rows = connection.execute(query.order_by(notes.c.at, notes.c.note_id)).mappings()
        return [CaseNote(**row) for row in rows]


def change_cases(
    connection: sql.Connection,
    revisions: Sequence[AlertRevision],
    action: CaseAction,
    by: str,
    now: datetime,
    incident_id: str = "",
) -> list[ActionOutcome]:
    """Change each alert or leave it, and return the outcomes in their order. The caller must end with `finish_changes`.

    `incident_id`, for the audit, is the incident if it is changed as a whole.
    """
    change = _check_change(connection, action, storable(by), now, incident_id)
    known = _read_cases(connection, {storable(each.alert_id) for each in revisions})
    places = sorted(range(len(revisions)), key=lambda place: revisions[place].alert_id)
    outcomes = {place: _change_one(connection, revisions[place], change, known) for place in places}
    return [outcomes[place] for place in range(len(revisions))]


def finish_changes(connection: sql.Connection, alert_ids: Sequence[str]) -> None:
    """Update the tables derived from the cases of these alerts. It must be the last step before the commit."""
    shared = prevalence.update_decided_prevalence(connection, alert_ids)
    incident_groups.refresh_incidents_of(connection, {*alert_ids, *shared})
    mark_changed(connection, [*alert_ids, *shared])


def insert_note(connection: sql.Connection, alert_id: str, text: str, by: str, now: datetime) -> CaseNote:
    """Insert a note, and set the alert in progress. The caller must end with `finish_changes`."""
    note = CaseNote(secrets.token_hex(8), storable(alert_id), now, storable(by), storable(text).strip())
    if not 0 < len(note.text) <= MAX_NOTE_LENGTH:
        raise FingerprintError(f"a note has 1 to {MAX_NOTE_LENGTH:,} characters, not {len(note.text):,}")
    if not connection.scalar(sql.select(alerts.c.alert_id).where(alerts.c.alert_id == note.alert_id)):
        raise NotFound(f"there is no alert {alert_id!r} to write a note on")
    row = {name: getattr(note, name) for name in CaseNote.__slots__}
    connection.execute(sql.insert(notes).values(row))
    # 0: a note changes no version
    first = {"alert_id": note.alert_id, "version": 0, "at": now, "by": note.by}
    statement = insert_into(connection, cases).values(**first, in_progress=True, responded_at=now)
    again = {"in_progress": True, "responded_at": _first_response(now)}
    connection.execute(statement.on_conflict_do_update(index_elements=["alert_id"], set_=again))
    add_audit_entry(connection, now, by, "alert.note", note.alert_id, {"note_id": note.note_id})
    return note


def _first_response(now: datetime) -> sql.ColumnElement[datetime]:
    return sql.func.coalesce(cases.c.responded_at, sql.literal(now, cases.c.responded_at.type))


def read_current_decisions(connection: sql.Connection) -> dict[str, Decision]:
    """Return the decision in force of each decided alert, by id (`core.case.current_dispositions`)."""
    return {alert_id: each.decision for alert_id, each in read_current_dispositions(connection).items()}


def read_current_dispositions(connection: sql.Connection) -> dict[str, Disposition]:
    """Return the disposition in force on each alert, by id: a duplicate has its original's, a reopened alert has none."""
    decided = sql.select(dispositions.c.alert_id).distinct()
    open_again = sql.select(cases.c.alert_id).where(cases.c.decision.is_(None), cases.c.alert_id.in_(decided))
    reopened = set(connection.scalars(open_again))
    newest = {each.alert_id: each for each in _read_dispositions(connection) if each.alert_id not in reopened}
    alert_id = alert_events.c.alert_id
    sizes = sql.select(alert_id, sql.func.count()).where(alert_id.in_(decided)).group_by(alert_id)
    evidence = {row[0]: row[1] for row in connection.execute(sizes)}
    return current_dispositions(newest.values(), evidence)


# --- dispositions -----------------------------------------------------------------------------------------------------


def _read_dispositions(connection: sql.Connection, alert_id: str | None = None) -> list[Disposition]:
    query = sql.select(*DISPOSITION_COLUMNS).order_by(dispositions.c.at, dispositions.c.alert_id)
    query = query if alert_id is None else query.where(dispositions.c.alert_id == storable(alert_id))
    return [Disposition(**row) for row in connection.execute(query).mappings()]


def _insert_disposition(
    connection: sql.Connection, disposition: Disposition, replaced_at: datetime | None
) -> bool:
    """Insert a disposition; return False if the same one is stored already."""
    row = {column.name: storable(getattr(disposition, column.name)) for column in DISPOSITION_COLUMNS}
    same = (dispositions.c.alert_id == row["alert_id"]) & (dispositions.c.at == row["at"])
    known = connection.execute(sql.select(*DISPOSITION_COLUMNS).where(same)).mappings().one_or_none()
    if known is not None and dict(known) == row:
        return False
    connection.execute(sql.delete(dispositions).where(same))
    connection.execute(sql.insert(dispositions).values(**row, replaced_at=replaced_at))
    return True


def _decided_before(connection: sql.Connection, disposition: Disposition) -> datetime | None:
    """Return the time of the alert's previous decision; None if there is none, or if it is newer than the disposition."""
    own = (cases.c.alert_id == disposition.alert_id) & cases.c.decision.is_not(None)
    return connection.scalar(sql.select(cases.c.decided_at).where(own, cases.c.decided_at < disposition.at))


def _replaced_disposition(connection: sql.Connection, case: Row) -> Disposition | None:
    """Return the disposition that was in force before the current one of a case; None if there was none."""
    own = dispositions.c.alert_id == case["alert_id"]
    before = sql.select(dispositions.c.replaced_at).where(own, dispositions.c.at == case["decided_at"])
    query = sql.select(*DISPOSITION_COLUMNS).where(own, dispositions.c.at == before.scalar_subquery())
    found = connection.execute(query).mappings().one_or_none()
    return Disposition(**found) if found else None


def _with_full_ids(connection: sql.Connection, disposition: Disposition) -> Disposition:
    alert_id = resolve_alert_id(connection, disposition.alert_id)
    is_duplicate = disposition.decision == "duplicate"
    original = resolve_alert_id(connection, disposition.duplicate_of) if is_duplicate else ""
    if is_duplicate and alert_id in _duplicate_chain(connection, original):
        raise FingerprintError(f"alert {alert_id} is left as it is: {_OWN_DUPLICATE}")
    return replace(disposition, alert_id=alert_id, duplicate_of=original)


def _decision_columns(disposition: Disposition | None, at: datetime | None = None) -> Row:
    """Return the decision columns of a case, given the disposition in force; without one, it is undecided since `at`."""
    if disposition is None:
        return {"decision": None, "decided_events": 0, "decided_at": at, "duplicate_of": ""}
    return {
        "decision": disposition.decision,
        "decided_events": disposition.events,
        "decided_at": disposition.at,
        "duplicate_of": disposition.duplicate_of,
    }


# --- changing one case ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _CheckedChange:
    """A checked change of many alerts. The `excluded_originals` cannot become duplicates of `duplicate_of`."""

    action: CaseAction
    by: str
    now: datetime
    duplicate_of: str = ""
    excluded_originals: frozenset[str] = frozenset()
    incident_id: str = ""  # of the incident that is changed as a whole


def _check_change(
    connection: sql.Connection, action: CaseAction, by: str, now: datetime, incident_id: str
) -> _CheckedChange:
    if isinstance(action, AssignCase) and len(action.to) > MAX_KEY_LENGTH:
        raise FingerprintError(f"a name has at most {MAX_KEY_LENGTH} characters")
    if not isinstance(action, SetDisposition):
        return _CheckedChange(action, by, now, incident_id=incident_id)
    if (action.decision == "duplicate") != bool(action.duplicate_of):
        raise FingerprintError("a duplicate is a duplicate of another alert: give its id")
    if not action.duplicate_of:
        return _CheckedChange(action, by, now, incident_id=incident_id)
    original = resolve_alert_id(connection, action.duplicate_of)
    chain = frozenset(_duplicate_chain(connection, original))
    return _CheckedChange(action, by, now, original, chain, incident_id)


def _duplicate_chain(connection: sql.Connection, alert_id: str) -> list[str]:
    """Return the chain of an alert, the alert that it is a duplicate of, and so on."""
    found: list[str] = []
    while alert_id and alert_id not in found:
        found.append(alert_id)
        own = (cases.c.alert_id == alert_id) & (cases.c.decision == "duplicate")
        alert_id = connection.scalar(sql.select(cases.c.duplicate_of).where(own)) or ""
    return found


def _read_cases(connection: sql.Connection, alert_ids: set[str]) -> dict[str, Row]:
    """Return the case and number of events of each alert that exists; version 0 stands for no case."""
    query = sql.select(alerts.c.alert_id, alerts.c.event_count, *_CASE_COLUMNS).select_from(ALERTS_WITH_CASES)
    found = connection.execute(query.where(alerts.c.alert_id.in_(alert_ids))).mappings()
    return {row["alert_id"]: dict(row) | {"version": row["version"] or 0} for row in found}


def _change_one(
    connection: sql.Connection, revision: AlertRevision, change: _CheckedChange, known: dict[str, Row]
) -> ActionOutcome:
    alert_id = storable(revision.alert_id)
    case = known.get(alert_id)
    if case is None:
        return _missing_outcome(alert_id)
    if reason := _conflict_reason(case, revision, change):
        return ActionOutcome(alert_id, False, case["version"], reason)
    at = max(change.now, case["decided_at"] + _MINIMAL_STEP) if case["decided_at"] else change.now
    before = _replaced_disposition(connection, case) if isinstance(change.action, UndoDecision) else None
    if before and alert_id in _duplicate_chain(connection, before.duplicate_of):
        return ActionOutcome(alert_id, False, case["version"], _OWN_DUPLICATE)
    row = _changed_row(case, revision, change, at, before)
    version = _update_case(connection, alert_id, revision.version, row)
    if version is None:
        return _conflict_outcome(connection, alert_id)
    _record_change(connection, case, change, row)
    known[alert_id] = case | row | {"version": version}
    return ActionOutcome(alert_id, True, version)


def _conflict_reason(case: Row, revision: AlertRevision, change: _CheckedChange) -> str:
    """Return why this alert must not be changed; empty if it may be."""
    if case["version"] != revision.version:
        return _describe_last_change(case)
    if case["alert_id"] in change.excluded_originals:
        return _OWN_DUPLICATE
    if isinstance(change.action, SetStatus) and is_closed(case):
        return "it is closed: reopen it first"
    needs_decision = isinstance(change.action, ReopenCase | UndoDecision)
    return "it is not decided" if needs_decision and case["decision"] is None else ""


def _changed_row(
    case: Row, revision: AlertRevision, change: _CheckedChange, at: datetime, before: Disposition | None
) -> Row:
    """Return the case's row after the change; `before` is the disposition that undo restores."""
    row: Row = {"at": at, "by": change.by, "responded_at": case["responded_at"] or at}
    match change.action:
        case AssignCase(to):
            return row | {"assignee": storable(to)} | ({"in_progress": True} if to else {})
        case SetStatus(status):
            return row | {"in_progress": status == "in_progress"}
        case SetDisposition(decision, why):
            seen = case["event_count"] if revision.events is None else revision.events
            events = max(0, min(seen, case["event_count"]))
            made = Disposition(case["alert_id"], decision, change.by, why, at, events, change.duplicate_of)
            return row | _decision_columns(made)
        case _:
            return row | _decision_columns(before, at)


def _update_case(connection: sql.Connection, alert_id: str, seen: int, row: Row) -> int | None:
    """Return the version after the change; None if a concurrent change, which the database waited for, came first."""
    if seen == 0:
        first = insert_into(connection, cases).values(alert_id=alert_id, version=1, **row)
        noted = {"version": 1, **row}  # a note on an alert without a case left one of version 0
        first = first.on_conflict_do_update(
            index_elements=["alert_id"], set_=noted, where=cases.c.version == 0
        )
        return connection.scalar(first.returning(cases.c.version))
    same = (cases.c.alert_id == alert_id) & (cases.c.version == seen)
    later = sql.update(cases).where(same).values(version=seen + 1, **row)
    return connection.scalar(later.returning(cases.c.version))


def _record_change(connection: sql.Connection, case: Row, change: _CheckedChange, row: Row) -> None:
    """Add the change to the history that training reads, and to the audit. `case` is the row before the change."""
    alert_id, action, at, by = case["alert_id"], change.action, row["at"], change.by
    whole = {"incident": change.incident_id} if change.incident_id else {}
    if isinstance(action, AssignCase):
        add_audit_entry(connection, at, by, "alert.assign", alert_id, {"to": action.to} | whole)
    elif isinstance(action, SetStatus):
        add_audit_entry(connection, at, by, "alert.status", alert_id, {"status": action.status} | whole)
    elif isinstance(action, SetDisposition):
        events, original = row["decided_events"], change.duplicate_of
        made = Disposition(alert_id, action.decision, by, action.why, at, events, original)
        _insert_disposition(connection, made, case["decided_at"] if case["decision"] else None)
        detail = {
            "decision": action.decision,
            "why": action.why,
            "duplicate_of": original,
            "events": events,
        }
        add_audit_entry(connection, at, by, "alert.decide", alert_id, detail | whole)
    elif isinstance(
        action, UndoDecision
    ):  # a mistake is no history: the audit has it, training never sees it
        own = (dispositions.c.alert_id == alert_id) & (dispositions.c.at == case["decided_at"])
        connection.execute(sql.delete(dispositions).where(own))
        detail = {"why": action.why, "undone": case["decision"], "decision": row["decision"] or ""}
        add_audit_entry(connection, at, by, "alert.undo", alert_id, detail | whole)
    else:
        add_audit_entry(connection, at, by, "alert.reopen", alert_id, {"why": action.why} | whole)


def _missing_outcome(alert_id: str) -> ActionOutcome:
    return ActionOutcome(alert_id, False, -1, "there is no such alert")


def _conflict_outcome(connection: sql.Connection, alert_id: str) -> ActionOutcome:
    """Return the outcome of the slower of two concurrent changes."""
    query = sql.select(cases.c.version, cases.c.by).where(cases.c.alert_id == alert_id)
    now = connection.execute(query).mappings().one_or_none()
    return ActionOutcome(
        alert_id, False, now["version"] if now else 0, _describe_last_change(now or {"by": ""})
    )


def _describe_last_change(case: Any) -> str:
    return f"{case['by'] or 'another user'} changed it since"
