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
from fingerprint.core.case import LARGEST_PAGE, Assign, Change, Chosen, Decide, Outcome
from fingerprint.core.sanitize import storable
from fingerprint.store import audit, change_feed, dispositions, prevalence
from fingerprint.store.filters import WORKED
from fingerprint.store.id_prefix import one_id
from fingerprint.store.queue_tables import cases
from fingerprint.store.schema import LONGEST_KEY, Row, alerts, insert_of

_LATER = timedelta(microseconds=1)
_CASE = tuple(column for column in cases.columns if column.name != "alert_id")


@dataclass(frozen=True, slots=True)
class _Work:
    """One change of many alerts, checked."""

    change: Change
    by: str
    now: datetime
    duplicate_of: str = ""
    copies: frozenset[str] = (
        frozenset()
    )  # what cannot be a duplicate of it: itself, and what it is a duplicate of


def change(
    connection: sql.Connection, chosen: Sequence[Chosen], change: Change, by: str, now: datetime
) -> list[Outcome]:
    """To each alert or not to it, in the order given. FingerprintError for a change that can be done to none."""
    if len(chosen) > LARGEST_PAGE:
        raise FingerprintError(f"at most {LARGEST_PAGE} alerts are changed at once, not {len(chosen)}")
    work = _checked(connection, change, storable(by), now)
    known = _known(connection, {storable(each.alert_id) for each in chosen})
    places = sorted(range(len(chosen)), key=lambda place: chosen[place].alert_id)
    outcomes = {place: _one(connection, chosen[place], work, known) for place in places}
    done = [each.alert_id for each in outcomes.values() if each.done]
    change_feed.mark(connection, [*done, *prevalence.judged(connection, done)])
    return [outcomes[place] for place in range(len(chosen))]


def judge(connection: sql.Connection, said: Disposition) -> None:
    """A disposition that came in by itself (`Desk.triage`): it counts if it is its alert's newest, whatever version that has."""
    if not dispositions.add(connection, said):
        return
    detail = {"decision": said.decision, "why": said.why, "duplicate_of": said.duplicate_of}
    audit.say(connection, said.at, said.by, "alert.decide", said.alert_id, detail)
    row = _decided(said) | {"at": said.at, "by": storable(said.by)}
    statement = insert_of(connection, cases).values(alert_id=said.alert_id, version=1, **row)
    older = cases.c.decided_at.is_(None) | (cases.c.decided_at <= said.at)
    again = row | {"version": cases.c.version + 1}
    connection.execute(statement.on_conflict_do_update(index_elements=["alert_id"], set_=again, where=older))
    change_feed.mark(connection, [said.alert_id, *prevalence.judged(connection, [said.alert_id])])


# --- one change -------------------------------------------------------------------------------------------------------


def _one(connection: sql.Connection, chosen: Chosen, work: _Work, known: dict[str, Row]) -> Outcome:
    alert_id = storable(chosen.alert_id)
    case = known.get(alert_id)
    if case is None:
        return Outcome(alert_id, False, -1, "there is no such alert")
    if reason := _objection(case, chosen, work):
        return Outcome(alert_id, False, case["version"], reason)
    at = max(work.now, case["decided_at"] + _LATER) if case["decided_at"] else work.now
    row = _new(case, chosen, work, at)
    version = _write(connection, alert_id, chosen.version, row)
    if version is None:
        return _overtaken(connection, alert_id)
    _tell(connection, alert_id, work, row)
    known[alert_id] = case | row | {"version": version}
    return Outcome(alert_id, True, version)


def _objection(case: Row, chosen: Chosen, work: _Work) -> str:
    """Why this alert is not changed; empty if it may be."""
    if case["version"] != chosen.version:
        return _by_whom(case)
    if case["alert_id"] in work.copies:
        return "it cannot be a duplicate of itself, or of its own duplicate"
    reopens = not isinstance(work.change, Assign | Decide)
    return "nobody has decided on it" if reopens and case["decision"] is None else ""


def _new(case: Row, chosen: Chosen, work: _Work, at: datetime) -> Row:
    """The case's row after the change."""
    row: Row = {"at": at, "by": work.by}
    match work.change:
        case Assign(to):
            return row | {"assignee": storable(to)}
        case Decide(decision, why):
            seen = case["event_count"] if chosen.events is None else chosen.events
            events = max(0, min(seen, case["event_count"]))
            said = Disposition(case["alert_id"], decision, work.by, why, at, events, work.duplicate_of)
            return row | _decided(said)
        case _:
            return row | {"decision": None, "decided_events": 0, "decided_at": at, "duplicate_of": ""}


def _decided(said: Disposition) -> Row:
    return {
        "decision": said.decision,
        "decided_events": said.events,
        "decided_at": said.at,
        "duplicate_of": said.duplicate_of,
    }


def _write(connection: sql.Connection, alert_id: str, seen: int, row: Row) -> int | None:
    """The version after it; None where somebody was faster, whom the database made us wait for."""
    if seen == 0:
        first = insert_of(connection, cases).values(alert_id=alert_id, version=1, **row)
        return connection.scalar(first.on_conflict_do_nothing().returning(cases.c.version))
    same = (cases.c.alert_id == alert_id) & (cases.c.version == seen)
    later = sql.update(cases).where(same).values(version=seen + 1, **row)
    return connection.scalar(later.returning(cases.c.version))


def _tell(connection: sql.Connection, alert_id: str, work: _Work, row: Row) -> None:
    """The history that learning reads, and the audit."""
    what = work.change
    if isinstance(what, Assign):
        audit.say(connection, row["at"], work.by, "alert.assign", alert_id, {"to": what.to})
    elif isinstance(what, Decide):
        events, of = row["decided_events"], work.duplicate_of
        said = Disposition(alert_id, what.decision, work.by, what.why, row["at"], events, of)
        dispositions.add(connection, said)
        detail = {"decision": what.decision, "why": what.why, "duplicate_of": of, "events": events}
        audit.say(connection, row["at"], work.by, "alert.decide", alert_id, detail)
    else:
        audit.say(connection, row["at"], work.by, "alert.reopen", alert_id, {"why": what.why})


def _overtaken(connection: sql.Connection, alert_id: str) -> Outcome:
    """What somebody made of it meanwhile."""
    query = sql.select(cases.c.version, cases.c.by).where(cases.c.alert_id == alert_id)
    now = connection.execute(query).mappings().one_or_none()
    return Outcome(alert_id, False, now["version"] if now else 0, _by_whom(now or {"by": ""}))


def _by_whom(case: Any) -> str:
    return f"{case['by'] or 'somebody'} changed it since"


# --- what is checked first --------------------------------------------------------------------------------------------


def _checked(connection: sql.Connection, change: Change, by: str, now: datetime) -> _Work:
    if isinstance(change, Assign) and len(change.to) > LONGEST_KEY:
        raise FingerprintError(f"a name has at most {LONGEST_KEY} characters")
    if not isinstance(change, Decide):
        return _Work(change, by, now)
    if (change.decision == "duplicate") != bool(change.duplicate_of):
        raise FingerprintError("a duplicate is a duplicate of another alert: say of which")
    if not change.duplicate_of:
        return _Work(change, by, now)
    original = one_id(connection, change.duplicate_of)
    return _Work(change, by, now, original, frozenset(_copied(connection, original)))


def _copied(connection: sql.Connection, alert_id: str) -> list[str]:
    """An alert, what it is a duplicate of, and so on."""
    found: list[str] = []
    while alert_id and alert_id not in found:
        found.append(alert_id)
        own = (cases.c.alert_id == alert_id) & (cases.c.decision == "duplicate")
        alert_id = connection.scalar(sql.select(cases.c.duplicate_of).where(own)) or ""
    return found


def _known(connection: sql.Connection, alert_ids: set[str]) -> dict[str, Row]:
    """Alerts that are there: how many events, and their case, of version 0 where there is none."""
    query = sql.select(alerts.c.alert_id, alerts.c.event_count, *_CASE).select_from(WORKED)
    found = connection.execute(query.where(alerts.c.alert_id.in_(alert_ids))).mappings()
    return {row["alert_id"]: dict(row) | {"version": row["version"] or 0} for row in found}
