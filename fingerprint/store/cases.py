"""What people do to alerts: decide, assign, open again. Of those who change one at once the first wins, the others are told.

Example:
    >>> with engine.begin() as connection:
    ...     change(connection, [Chosen("397edb7b6806", version=0)], Assign("maria"), "maria", now)
    ...     change(connection, [Chosen("397edb7b6806", version=0)], Assign("kim"), "kim", now)
    [Outcome(alert_id='397edb7b6806', done=False, version=1, reason='maria changed it since')]

A change is an UPDATE of the version that was seen, or an INSERT where nobody touched the alert yet; the database lets one of them
through. Rows are taken in the order of their ids, so that two who change the same many never wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sql

from fingerprint.core.alert import Disposition, FingerprintError
from fingerprint.core.case import (
    MAX_PAGE_SIZE,
    ActionOutcome,
    AlertRevision,
    AssignCase,
    CaseAction,
    SetDisposition,
)
from fingerprint.core.sanitize import storable
from fingerprint.store import audit, change_feed, dispositions, prevalence
from fingerprint.store.filters import ALERTS_WITH_CASES
from fingerprint.store.id_prefix import resolve_alert_id
from fingerprint.store.queue_tables import cases
from fingerprint.store.schema import MAX_KEY_LENGTH, Row, alerts, insert_into

_MINIMAL_STEP = timedelta(microseconds=1)
_CASE_COLUMNS = tuple(column for column in cases.columns if column.name != "alert_id")


@dataclass(frozen=True, slots=True)
class _CheckedChange:
    """One change of many alerts, checked."""

    change: CaseAction
    by: str
    now: datetime
    duplicate_of: str = ""
    excluded_originals: frozenset[str] = (
        frozenset()
    )  # what cannot be a duplicate of it: itself, and what it is a duplicate of


def change_cases(
    connection: sql.Connection, chosen: Sequence[AlertRevision], change: CaseAction, by: str, now: datetime
) -> list[ActionOutcome]:
    """To each alert or not to it, in the order given. FingerprintError for a change that can be done to none."""
    if len(chosen) > MAX_PAGE_SIZE:
        raise FingerprintError(f"at most {MAX_PAGE_SIZE} alerts are changed at once, not {len(chosen)}")
    work = _check_change(connection, change, storable(by), now)
    known = _read_cases(connection, {storable(each.alert_id) for each in chosen})
    places = sorted(range(len(chosen)), key=lambda place: chosen[place].alert_id)
    outcomes = {place: _change_one(connection, chosen[place], work, known) for place in places}
    done = [each.alert_id for each in outcomes.values() if each.done]
    change_feed.mark_changed(connection, [*done, *prevalence.update_decided_prevalence(connection, done)])
    return [outcomes[place] for place in range(len(chosen))]


def apply_disposition(connection: sql.Connection, disposition: Disposition) -> None:
    """A disposition that came in by itself (`Desk.triage`): it counts if it is its alert's newest, whatever version that has."""
    if not dispositions.add_disposition(connection, disposition):
        return
    detail = {
        "decision": disposition.decision,
        "why": disposition.why,
        "duplicate_of": disposition.duplicate_of,
    }
    audit.add_audit_entry(
        connection, disposition.at, disposition.by, "alert.decide", disposition.alert_id, detail
    )
    row = _decision_columns(disposition) | {"at": disposition.at, "by": storable(disposition.by)}
    statement = insert_into(connection, cases).values(alert_id=disposition.alert_id, version=1, **row)
    older = cases.c.decided_at.is_(None) | (cases.c.decided_at <= disposition.at)
    again = row | {"version": cases.c.version + 1}
    connection.execute(statement.on_conflict_do_update(index_elements=["alert_id"], set_=again, where=older))
    change_feed.mark_changed(
        connection,
        [disposition.alert_id, *prevalence.update_decided_prevalence(connection, [disposition.alert_id])],
    )


# --- one change -------------------------------------------------------------------------------------------------------


def _change_one(
    connection: sql.Connection, chosen: AlertRevision, work: _CheckedChange, known: dict[str, Row]
) -> ActionOutcome:
    alert_id = storable(chosen.alert_id)
    case = known.get(alert_id)
    if case is None:
        return ActionOutcome(alert_id, False, -1, "there is no such alert")
    if reason := _conflict_reason(case, chosen, work):
        return ActionOutcome(alert_id, False, case["version"], reason)
    at = max(work.now, case["decided_at"] + _MINIMAL_STEP) if case["decided_at"] else work.now
    row = _changed_row(case, chosen, work, at)
    version = _update_case(connection, alert_id, chosen.version, row)
    if version is None:
        return _conflict_outcome(connection, alert_id)
    _record_change(connection, alert_id, work, row)
    known[alert_id] = case | row | {"version": version}
    return ActionOutcome(alert_id, True, version)


def _conflict_reason(case: Row, chosen: AlertRevision, work: _CheckedChange) -> str:
    """Why this alert is not changed; empty if it may be."""
    if case["version"] != chosen.version:
        return _describe_last_change(case)
    if case["alert_id"] in work.excluded_originals:
        return "it cannot be a duplicate of itself, or of its own duplicate"
    reopens = not isinstance(work.change, AssignCase | SetDisposition)
    return "nobody has decided on it" if reopens and case["decision"] is None else ""


def _changed_row(case: Row, chosen: AlertRevision, work: _CheckedChange, at: datetime) -> Row:
    """The case's row after the change."""
    row: Row = {"at": at, "by": work.by}
    match work.change:
        case AssignCase(to):
            return row | {"assignee": storable(to)}
        case SetDisposition(decision, why):
            seen = case["event_count"] if chosen.events is None else chosen.events
            events = max(0, min(seen, case["event_count"]))
            said = Disposition(case["alert_id"], decision, work.by, why, at, events, work.duplicate_of)
            return row | _decision_columns(said)
        case _:
            return row | {"decision": None, "decided_events": 0, "decided_at": at, "duplicate_of": ""}


def _decision_columns(disposition: Disposition) -> Row:
    return {
        "decision": disposition.decision,
        "decided_events": disposition.events,
        "decided_at": disposition.at,
        "duplicate_of": disposition.duplicate_of,
    }


def _update_case(connection: sql.Connection, alert_id: str, seen: int, row: Row) -> int | None:
    """The version after it; None where somebody was faster, whom the database made us wait for."""
    if seen == 0:
        first = insert_into(connection, cases).values(alert_id=alert_id, version=1, **row)
        return connection.scalar(first.on_conflict_do_nothing().returning(cases.c.version))
    same = (cases.c.alert_id == alert_id) & (cases.c.version == seen)
    later = sql.update(cases).where(same).values(version=seen + 1, **row)
    return connection.scalar(later.returning(cases.c.version))


def _record_change(connection: sql.Connection, alert_id: str, work: _CheckedChange, row: Row) -> None:
    """The history that learning reads, and the audit."""
    what = work.change
    if isinstance(what, AssignCase):
        audit.add_audit_entry(connection, row["at"], work.by, "alert.assign", alert_id, {"to": what.to})
    elif isinstance(what, SetDisposition):
        events, of = row["decided_events"], work.duplicate_of
        said = Disposition(alert_id, what.decision, work.by, what.why, row["at"], events, of)
        dispositions.add_disposition(connection, said)
        detail = {"decision": what.decision, "why": what.why, "duplicate_of": of, "events": events}
        audit.add_audit_entry(connection, row["at"], work.by, "alert.decide", alert_id, detail)
    else:
        audit.add_audit_entry(connection, row["at"], work.by, "alert.reopen", alert_id, {"why": what.why})


def _conflict_outcome(connection: sql.Connection, alert_id: str) -> ActionOutcome:
    """What somebody made of it meanwhile."""
    query = sql.select(cases.c.version, cases.c.by).where(cases.c.alert_id == alert_id)
    now = connection.execute(query).mappings().one_or_none()
    return ActionOutcome(
        alert_id, False, now["version"] if now else 0, _describe_last_change(now or {"by": ""})
    )


def _describe_last_change(case: Any) -> str:
    return f"{case['by'] or 'somebody'} changed it since"


# --- what is checked first --------------------------------------------------------------------------------------------


def _check_change(connection: sql.Connection, change: CaseAction, by: str, now: datetime) -> _CheckedChange:
    if isinstance(change, AssignCase) and len(change.to) > MAX_KEY_LENGTH:
        raise FingerprintError(f"a name has at most {MAX_KEY_LENGTH} characters")
    if not isinstance(change, SetDisposition):
        return _CheckedChange(change, by, now)
    if (change.decision == "duplicate") != bool(change.duplicate_of):
        raise FingerprintError("a duplicate is a duplicate of another alert: say of which")
    if not change.duplicate_of:
        return _CheckedChange(change, by, now)
    original = resolve_alert_id(connection, change.duplicate_of)
    return _CheckedChange(change, by, now, original, frozenset(_duplicate_chain(connection, original)))


def _duplicate_chain(connection: sql.Connection, alert_id: str) -> list[str]:
    """An alert, what it is a duplicate of, and so on."""
    found: list[str] = []
    while alert_id and alert_id not in found:
        found.append(alert_id)
        own = (cases.c.alert_id == alert_id) & (cases.c.decision == "duplicate")
        alert_id = connection.scalar(sql.select(cases.c.duplicate_of).where(own)) or ""
    return found


def _read_cases(connection: sql.Connection, alert_ids: set[str]) -> dict[str, Row]:
    """Alerts that are there: how many events, and their case, of version 0 where there is none."""
    query = sql.select(alerts.c.alert_id, alerts.c.event_count, *_CASE_COLUMNS).select_from(ALERTS_WITH_CASES)
    found = connection.execute(query.where(alerts.c.alert_id.in_(alert_ids))).mappings()
    return {row["alert_id"]: dict(row) | {"version": row["version"] or 0} for row in found}
