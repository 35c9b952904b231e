"""The activity of an alert as sentences: audit entries, notes and decisions, the newest first.

Example:
    >>> [(line.by, line.sentence) for line in activity_log(store.audit.entries(alert_id), store.cases.notes(alert_id), [])]
    [('maria', 'closed it as benign'), ('maria', 'added a note')]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fingerprint.core.alert import Disposition
from fingerprint.core.case import AuditEntry, CaseNote
from fingerprint.web.language import gettext


@dataclass(frozen=True, slots=True)
class ActivityLine:
    """An action of a person; `text` is what they wrote about it."""

    at: datetime
    by: str
    sentence: str
    text: str = ""


def activity_log(
    entries: Iterable[AuditEntry], notes: Iterable[CaseNote], dispositions: Iterable[Disposition]
) -> list[ActivityLine]:
    """Return the activity, the newest first.

    A note appears with its text, a decision once: by its audit entry, or by itself where it came without one.
    """
    audited = list(entries)
    decided = {(entry.at, entry.by) for entry in audited if entry.action == "alert.decide"}
    lines = [describe_entry(entry) for entry in audited if entry.action != "alert.note"]
    lines += [ActivityLine(note.at, note.by, gettext("added a note"), note.text) for note in notes]
    lines += [_describe_disposition(each) for each in dispositions if (each.at, each.by) not in decided]
    return sorted(lines, key=lambda line: line.at, reverse=True)


def describe_entry(entry: AuditEntry) -> ActivityLine:
    """Return an audit entry as a sentence; an unknown kind is described by its own name."""
    detail = dict(entry.detail)
    why = str(detail.pop("why", "") or detail.pop("reason", "") or "")
    describe = _SENTENCES.get(entry.action)
    return ActivityLine(
        entry.at, entry.by, describe(detail) if describe else _describe_unknown(entry.action, detail), why
    )


def entry_details(entry: AuditEntry) -> str:
    """Return the other details of an entry as `name: value`."""
    return ", ".join(f"{name}: {value}" for name, value in entry.detail.items() if value not in ("", None))


def _describe_disposition(disposition: Disposition) -> ActivityLine:
    return ActivityLine(
        disposition.at,
        disposition.by,
        _describe_decision({"decision": disposition.decision, "duplicate_of": disposition.duplicate_of}),
        disposition.why,
    )


def _describe_decision(detail: Mapping[str, Any]) -> str:
    decision, of = str(detail.get("decision", "")), str(detail.get("duplicate_of") or "")
    if of:
        return gettext("closed it as a duplicate of %(alert)s", alert=of)
    return gettext("closed it as %(decision)s", decision=gettext(decision.replace("_", " ")))


def _describe_assignment(detail: Mapping[str, Any]) -> str:
    to = str(detail.get("to") or "")
    return gettext("assigned it to %(person)s", person=to) if to else gettext("unassigned it")


def _describe_undo(kind: str) -> str:
    known = {
        "split": gettext("undid a split of its incident"),
        "join": gettext("undid a join of its incident"),
    }
    return known.get(kind, gettext("undid a change of its incident"))


def _describe_unknown(action: str, detail: Mapping[str, Any]) -> str:
    more = ", ".join(f"{name} {value}" for name, value in detail.items() if value not in ("", None))
    return action.replace(".", ": ", 1).replace("_", " ") + (f" ({more})" if more else "")


_SENTENCES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "alert.decide": _describe_decision,
    "alert.assign": _describe_assignment,
    "alert.reopen": lambda _: gettext("reopened it"),
    "alert.status": lambda detail: gettext(
        "set it to %(status)s", status=gettext(str(detail.get("status", "")).replace("_", " "))
    ),
    "incident.split": lambda _: gettext("split it off its incident"),
    "incident.join": lambda _: gettext("joined its incident with another"),
    "incident.undo": lambda detail: _describe_undo(str(detail.get("kind", ""))),
}
