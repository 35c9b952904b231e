"""Work on alerts from the command line: `fingerprint alerts triage`, `assign`, `note` and `reopen`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import Any

from fingerprint.adapters.system import SystemClock
from fingerprint.core.alert import Decision, Disposition
from fingerprint.core.case import (
    AlertRevision,
    AssignCase,
    CaseAction,
    QueueRow,
    ReopenCase,
    SetDisposition,
    lacks_reason,
)
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Web
from fingerprint.core.time_range import format_iso
from fingerprint.store import SqlStore, open_store
from fingerprint.store.accounts import open_account_store
from pipelines.runtime import host


def triage_alert(
    database_url: str,
    alert_id: str,
    decision: Decision,
    why: str = "",
    of: str | None = None,
    by: str | None = None,
) -> dict[str, Any]:
    """Decide on an alert in its current state, whatever was decided before, and return the disposition.

    Raises FingerprintError if
    - an id does not name exactly one alert
    - a duplicate does not name its original
    - the decision needs a reason and has none
    - another person changes the alert at the same time
    """
    if (decision == "duplicate") != (of is not None):
        raise FingerprintError(
            "a duplicate needs the alert that it duplicates: `... duplicate --of ALERT_ID`"
        )
    if lacks_reason(decision, why):
        words = decision.replace("_", " ")
        raise FingerprintError(f"{words} needs a reason, because the detectors learn from it: --why REASON")
    with closing(open_store(database_url, create=False)) as store:
        case = _change_case(store, alert_id, SetDisposition(decision, why, of or ""), by)
        return disposition_as_json(store.cases.dispositions(case["alert_id"])[-1]) | {"title": case["title"]}


def assign_alert(database_url: str, alert_id: str, assignee: str, by: str | None = None) -> dict[str, Any]:
    """Assign an alert to an account, or to no one with an empty name; return the changed row of the queue.

    Raises FingerprintError for a name without an active account of an analyst. Any name is accepted if there are no accounts,
    because then only the command line reads the queue.
    """
    with closing(open_store(database_url, create=False)) as store:
        _check_assignee(store, assignee)
        return _change_case(store, alert_id, AssignCase(assignee), by)


def reopen_alert(database_url: str, alert_id: str, why: str = "", by: str | None = None) -> dict[str, Any]:
    """Reopen a closed alert and return the changed row of the queue. Raises FingerprintError if it is open."""
    with closing(open_store(database_url, create=False)) as store:
        row = store.queue.row(store.alerts.get(alert_id).alert_id)
        if row.decision is None:
            raise FingerprintError(
                f"alert {row.alert_id} is open already: it has no disposition to take back"
            )
        return _change_case(store, alert_id, ReopenCase(why), by)


def add_note(database_url: str, alert_id: str, text: str, by: str | None = None) -> dict[str, Any]:
    """Add a note to an alert and return the note. Raises FingerprintError for an empty note."""
    if not text.strip():
        raise FingerprintError("the note is empty: give its text in quotes")
    with closing(open_store(database_url, create=False)) as store:
        alert = store.alerts.get(alert_id)
        note = store.cases.add_note(alert.alert_id, text, by or host.login_name())
    return {"alert_id": alert.alert_id, "title": alert.title, "by": note.by, "text": note.text}


def _check_assignee(store: SqlStore, name: str) -> None:
    accounts = open_account_store(store.session, SystemClock(), Web()).accounts.list_all()
    analysts = [each.name for each in accounts if each.is_assignable]
    if name and accounts and name not in analysts:
        raise FingerprintError(
            f"{printable(name)} has no active account of an analyst; these do: {', '.join(analysts) or 'none'}"
        )


def _change_case(store: SqlStore, alert_id: str, action: CaseAction, by: str | None) -> dict[str, Any]:
    """Change an alert in its current state. Raises FingerprintError if another person changes it at the same time."""
    row = store.queue.row(store.alerts.get(alert_id).alert_id)
    revision = AlertRevision(row.alert_id, row.version, row.events)
    (outcome,) = store.cases.change([revision], action, by or host.login_name())
    if not outcome.done:
        raise FingerprintError(
            f"alert {row.alert_id} was not changed: {outcome.reason}; look at it and try again"
        )
    return _case_as_json(store.queue.row(row.alert_id))


def _case_as_json(row: QueueRow) -> dict[str, Any]:
    return {
        "alert_id": row.alert_id,
        "title": row.title,
        "status": "open" if row.open else "closed",
        "assignee": row.assignee,
        "version": row.version,
    }


def print_disposition(figures: dict[str, Any]) -> None:
    """Print what a triage decided."""
    print(printable(f"{figures['alert_id']} is {disposition_sentence(figures)}: {figures['title']}"))


def print_case(figures: dict[str, Any]) -> None:
    """Print the state of an alert after a change."""
    assignee = f"assigned to {figures['assignee']}" if figures["assignee"] else "not assigned"
    print(printable(f"{figures['alert_id']} is {figures['status']}, {assignee}: {figures['title']}"))


def print_note(figures: dict[str, Any]) -> None:
    """Print a confirmation of a note."""
    print(printable(f"noted on {figures['alert_id']} by {figures['by']}: {figures['text']}"))


def disposition_as_json(disposition: Disposition) -> dict[str, Any]:
    """Return a disposition for JSON; its time is ISO 8601 with a Z."""
    return {**asdict(disposition), "at": format_iso(disposition.at)}


def disposition_sentence(disposition: dict[str, Any]) -> str:
    """Return `benign, says maria`, or `duplicate of 397edb7b6806, says maria`."""
    of = f" of {disposition['duplicate_of']}" if disposition["duplicate_of"] else ""
    return f"{disposition['decision'].replace('_', ' ')}{of}, says {disposition['by']}"
