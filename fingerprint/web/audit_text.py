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
from fingerprint.web.language import N_, gettext


@dataclass(frozen=True, slots=True)
class ActivityLine:
    """An action of a person; `text` is their note or reason."""

    at: datetime
    by: str
    sentence: str
    text: str = ""


def activity_log(
    entries: Iterable[AuditEntry], notes: Iterable[CaseNote], dispositions: Iterable[Disposition]
) -> list[ActivityLine]:
    """Return the activity, the newest first.

    A note appears with its text. A decision appears once: as its audit entry, or as the disposition if it has no entry.
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
    """Return the details of an entry as `name: value`; the parts of a value are written the same way."""
    return _list_details(entry.detail)


def _list_details(detail: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')}: {_detail_text(value)}"
        for name, value in detail.items()
        if value not in ("", None, [], {})
    )


def _detail_text(value: object) -> str:
    """Return a value without the syntax of a programming language: `principal: ci, service: s3`."""
    if isinstance(value, Mapping):
        return f"({_list_details(value)})"
    if isinstance(value, list | tuple):
        return ", ".join(_detail_text(each) for each in value)
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    return str(value)


@dataclass(frozen=True, slots=True)
class AuditLine:
    """An audit entry as a sentence: the person `by`, the action, its target and details, and the person's note or reason."""

    entry: AuditEntry
    sentence: str
    detail: str
    text: str


def describe_line(entry: AuditEntry) -> AuditLine:
    """Return an entry of the audit as a sentence that names its target; an unknown action is shown by its name."""
    detail = dict(entry.detail)
    why = str(detail.pop("why", "") or detail.pop("reason", "") or "")
    phrase = KNOWN_ACTIONS.get(entry.action)
    if phrase is None:
        return AuditLine(entry, f"{entry.action} {entry.target[:80]}", _list_details(detail), why)
    values = {"target": entry.target[:80]}
    if entry.action == "alert.decide":
        values["decision"] = gettext(str(detail.pop("decision", "")).replace("_", " "))
    if entry.action == "alert.status":
        values["status"] = gettext(str(detail.pop("status", "")).replace("_", " "))
    if entry.action == "alert.assign":
        to = str(detail.pop("to", "") or "")
        phrase, values["person"] = (phrase, to) if to else (N_("unassigned alert %(target)s"), "")
    return AuditLine(entry, gettext(phrase, **values), _list_details(detail), why)


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


KNOWN_ACTIONS: dict[str, str] = {
    "alert.decide": N_("closed alert %(target)s as %(decision)s"),
    "alert.assign": N_("assigned alert %(target)s to %(person)s"),
    "alert.reopen": N_("reopened alert %(target)s"),
    "alert.undo": N_("took the last decision on alert %(target)s back"),
    "alert.status": N_("set alert %(target)s to %(status)s"),
    "alert.note": N_("added a note to alert %(target)s"),
    "incident.split": N_("split alert %(target)s off its incident"),
    "incident.join": N_("joined the incident of alert %(target)s with another"),
    "incident.undo": N_("undid a change of the incident of alert %(target)s"),
    "suppression.create": N_("created suppression %(target)s"),
    "suppression.end": N_("ended suppression %(target)s"),
    "threshold.change": N_("changed the threshold"),
    "retention.purge": N_("removed the data of a principal (%(target)s)"),
    "view.save": N_("saved view %(target)s"),
    "view.delete": N_("deleted view %(target)s"),
    "account.create": N_("created account %(target)s"),
    "account.invite": N_("made an invitation link for account %(target)s"),
    "account.accept": N_("set up account %(target)s with a link"),
    "account.role": N_("changed the role of account %(target)s"),
    "account.disable": N_("disabled account %(target)s"),
    "account.enable": N_("enabled account %(target)s"),
    "account.login": N_("logged in as %(target)s"),
    "account.logout": N_("logged out of %(target)s"),
    "account.refused": N_("was refused a login as %(target)s"),
    "account.password": N_("changed the password of account %(target)s"),
    "account.end_session": N_("ended a session of account %(target)s"),
    "account.leave_others": N_("ended the other sessions of account %(target)s"),
    "account.end_all": N_("ended all sessions of account %(target)s"),
    "factor.add": N_("added a second factor to account %(target)s"),
    "factor.remove": N_("removed a second factor of account %(target)s"),
    "factor.reset": N_("removed all second factors of account %(target)s"),
    "factor.recovery_codes": N_("made new recovery codes for account %(target)s"),
    "token.create": N_("created access token %(target)s"),
    "token.revoke": N_("revoked access token %(target)s"),
}
_SENTENCES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "alert.decide": _describe_decision,
    "alert.assign": _describe_assignment,
    "alert.reopen": lambda _: gettext("reopened it"),
    "alert.undo": lambda _: gettext("took the last decision back"),
    "alert.status": lambda detail: gettext(
        "set it to %(status)s", status=gettext(str(detail.get("status", "")).replace("_", " "))
    ),
    "incident.split": lambda _: gettext("split it off its incident"),
    "incident.join": lambda _: gettext("joined its incident with another"),
    "incident.undo": lambda detail: _describe_undo(str(detail.get("kind", ""))),
}
