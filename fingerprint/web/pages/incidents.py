"""Incidents: the list, and one incident as one story with one decision.

Example:
    GET /incidents?status=new&assignee=-
    POST /incidents/3fa94c1be0d27a58/changes   csrf=...&do=true_positive&why=a+stolen+key&revision=4f0c9be1a7d2e683

A change that cannot be made shows the page as it is now, with what was typed.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import Annotated, Any, cast
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from markupsafe import Markup
from pydantic import BaseModel, Field

from fingerprint.core.alert import Decision
from fingerprint.core.case import (
    MAX_NOTE_LENGTH,
    MAX_REASON_LENGTH,
    AlertFilter,
    AlertRevision,
    AssignCase,
    CaseAction,
    CaseNote,
    QueueRow,
    ReopenCase,
    SetDisposition,
    SetStatus,
    UndoDecision,
    lacks_reason,
)
from fingerprint.core.errors import Conflict, FingerprintError
from fingerprint.core.incident import (
    Incident,
    IncidentFilter,
    IncidentOrder,
    IncidentRow,
    IncidentStatusFilter,
)
from fingerprint.core.sanitize import truncate
from fingerprint.registry.bank import Bank
from fingerprint.web import queue_query, urls
from fingerprint.web.audit_text import ActivityLine, activity_log
from fingerprint.web.auth import Analyst, Viewer
from fingerprint.web.dependencies import Dependencies, Deps, active_people, check_assignee
from fingerprint.web.flash import ACTION_SENTENCES, DECISIONS
from fingerprint.web.formatting import short_person
from fingerprint.web.incident_story import incident_story
from fingerprint.web.language import N_, NN_, gettext, template_ngettext
from fingerprint.web.layout import redirect, render_page

ROWS_PER_PAGE = 50
# Characters for each alert in the address of Undo: 1.6 kB for the largest incident; proxies accept 4 kB.
MARK_LENGTH = 8
MAX_NEIGHBOURS = 8  # incidents that are offered to be joined
NEAR = timedelta(days=3)  # between such an incident and this one
MAX_SHORT_NAME = 60  # characters of a principal in a row
DONE_SENTENCES = ACTION_SENTENCES | {  # one alert, and several
    "in_progress": NN_(
        "<strong>%(num)s alert</strong> in progress.", "<strong>%(num)s alerts</strong> in progress."
    ),
    "new": NN_("<strong>%(num)s alert</strong> new again.", "<strong>%(num)s alerts</strong> new again."),
    "split": NN_(
        "<strong>%(num)s alert</strong> split off: they stay apart until it is undone.",
        "<strong>%(num)s alerts</strong> split off: they stay apart until it is undone.",
    ),
    "join": NN_(
        "<strong>%(num)s alert</strong> joined: they stay together until it is undone.",
        "<strong>%(num)s alerts</strong> joined: they stay together until it is undone.",
    ),
    "undo": NN_("<strong>%(num)s alert</strong> moved back.", "<strong>%(num)s alerts</strong> moved back."),
}
REASON_PHRASES = {
    "first": N_("the first alert"),
    "shared_call": N_("the same call, as the other account's trail records it"),
    "principal": N_("same principal"),
    "access_key": N_("same access key"),
    "credential_chain": N_("same credential chain, by key"),
    "person": N_("same person at another role or in another account"),
    "opened": N_("one made or opened the other's user or role"),
    "name": N_("same name in another account, from the same new address or with the same new action"),
    "service": N_("same name in another account, by the same service"),
    "address": N_("same new address"),
    "new_action": N_("same new actions on the same day"),
    "hand": N_("joined by hand"),
}
router = APIRouter()


class IncidentQuery(BaseModel):
    """The address of the list. `assignee` is a name, or `-` for incidents without one."""

    status: IncidentStatusFilter = "open"
    assignee: Annotated[str, Field(max_length=64)] = ""
    principal: Annotated[str, Field(max_length=1000)] = ""
    order: IncidentOrder = "urgency"
    following: Annotated[str | None, Field(max_length=2000)] = None

    def to_filter(self) -> IncidentFilter:
        """Return the filter that the alert store takes."""
        assignee = "" if self.assignee == queue_query.UNASSIGNED else self.assignee or None
        return IncidentFilter(self.status, assignee, self.principal.strip())

    def url_with(self, **changes: str) -> str:
        """Return the address with some values changed, from its first page on."""
        plain = IncidentQuery()
        values = self.model_dump() | {"following": None} | changes
        kept = {name: value for name, value in values.items() if value and value != getattr(plain, name)}
        return f"/incidents?{urlencode(kept)}" if kept else "/incidents"


class IncidentForm(BaseModel):
    """An action on an incident: `do` is a decision, or one of take, assign, release, reopen, take_back, in_progress, new, note.

    `alert_ids` are the alerts that `take_back` is about: those that the decision changed.
    """

    do: str
    alert_ids: list[Annotated[str, Field(max_length=200)]] = []
    revision: Annotated[str, Field(max_length=16)] = ""
    why: Annotated[str, Field(max_length=MAX_REASON_LENGTH)] = ""
    duplicate_of: Annotated[str, Field(max_length=200)] = ""
    to: Annotated[str, Field(max_length=64)] = ""
    note: Annotated[str, Field(max_length=MAX_NOTE_LENGTH)] = ""


class SplitForm(BaseModel):
    """Alerts to split off."""

    alert_ids: list[Annotated[str, Field(max_length=200)]] = []


class JoinForm(BaseModel):
    """An alert whose incident is to be joined."""

    other: Annotated[str, Field(max_length=200)] = ""


@router.get("/incidents")
def show_incidents(
    query: Annotated[IncidentQuery, Query()], request: Request, caller: Viewer, deps: Deps
) -> Response:
    """Show incidents, the gravest first."""
    incident_filter = query.to_filter()
    return render_page(
        request,
        "queue/incidents.html",
        title=gettext("Incidents"),
        query=query,
        counts=deps.store.incidents.counts(incident_filter),
        page=deps.store.incidents.page(incident_filter, query.order, ROWS_PER_PAGE, query.following),
        newest_change=deps.store.changes.newest_number(),
        people=[each.name for each in active_people(deps)],
        shortened_principal=shortened_principal,
        urls=urls,
        incident_url=incident_url,
        now=deps.clock.now(),
    )


@router.get("/incidents/{incident_id}")
def show_incident(incident_id: str, request: Request, caller: Viewer, deps: Deps) -> Response:
    """Show an incident: its alerts in the order of time, why they belong together, and what was done."""
    found = deps.store.incidents.get(incident_id)
    return _page(request, deps, found, done=_read_done(request))


@router.post("/incidents/{incident_id}/changes")
def submit_incident_change(
    incident_id: str, form: Annotated[IncidentForm, Form()], request: Request, caller: Analyst, deps: Deps
) -> Response:
    """Change all alerts of an incident, or show why none was changed."""
    store = deps.store.incidents
    try:
        if form.do == "note":
            count, changed = store.add_note(incident_id, form.note, caller.name), []
        else:
            action = check_assignee(_to_action(form, caller.name), deps)
            chosen = form.alert_ids if isinstance(action, UndoDecision) else None
            changed = store.change(incident_id, form.revision, action, caller.name, chosen)
            count = len(changed)
    except FingerprintError as error:
        status = 409 if isinstance(error, Conflict) else 400
        return _page(request, deps, store.get(incident_id), status, error=str(error), typed=form)
    decided = changed if form.do in DECISIONS else []
    return redirect(_done_url(store.get(incident_id).row.incident_id, form.do, count, changed=decided))


@router.post("/incidents/{incident_id}/split")
def submit_split(
    incident_id: str, form: Annotated[SplitForm, Form()], request: Request, caller: Analyst, deps: Deps
) -> Response:
    """Split the ticked alerts off."""
    before = deps.store.incidents.get(incident_id)
    try:
        edit = deps.store.incidents.split(incident_id, form.alert_ids, caller.name)
    except FingerprintError as error:
        return _page(request, deps, deps.store.incidents.get(incident_id), 409, error=str(error))
    left = next(each.row.alert_id for each in before.alerts if each.row.alert_id not in edit.alert_ids)
    return redirect(_done_url(left, "split", len(edit.alert_ids), edit.edit_id))


@router.post("/incidents/{incident_id}/join")
def submit_join(
    incident_id: str, form: Annotated[JoinForm, Form()], request: Request, caller: Analyst, deps: Deps
) -> Response:
    """Join another incident with this one."""
    try:
        edit = deps.store.incidents.join(incident_id, form.other.strip(), caller.name)
    except FingerprintError as error:
        return _page(
            request, deps, deps.store.incidents.get(incident_id), 409, error=str(error), other=form.other
        )
    joined = deps.store.incidents.get(incident_id).row
    return redirect(_done_url(joined.incident_id, "join", joined.alerts, edit.edit_id))


@router.post("/incidents/edits/{edit_id}/undo")
def submit_undo(edit_id: str, caller: Analyst, deps: Deps) -> Response:
    """Undo a split or a join, and show the incident of its first alert."""
    edit = deps.store.incidents.undo(edit_id, caller.name)
    return redirect(_done_url(edit.with_alert or edit.alert_ids[0], "undo", len(edit.alert_ids)))


def incident_url(incident_id: str) -> str:
    """Return the page of an alert's incident."""
    return urls.alert_url(incident_id).replace("/alerts/", "/incidents/", 1)


def shortened_principal(principal: str) -> str:
    """Return the name of a person or principal, at most MAX_SHORT_NAME characters."""
    return truncate(short_person(principal) or gettext("without a name"), MAX_SHORT_NAME)


def _to_action(form: IncidentForm, caller_name: str) -> CaseAction:
    why = form.why.strip()
    if lacks_reason(form.do, why):
        raise FingerprintError("say why: the detectors learn from this decision, and others read it")
    if form.do in DECISIONS:
        return SetDisposition(cast(Decision, form.do), why, form.duplicate_of.strip())
    if form.do == "reopen":
        return ReopenCase(why)
    if form.do == "take_back":
        return UndoDecision()
    if form.do in ("new", "in_progress"):
        return SetStatus(cast(Any, form.do))
    to = {"take": caller_name, "release": "", "assign": form.to.strip()}.get(form.do)
    if to is None or (form.do == "assign" and not to):
        raise FingerprintError("nothing was done: choose what to do with the incident, and to whom it goes")
    return AssignCase(to)


def _done_url(
    incident_id: str, do: str, count: int, edit_id: str = "", changed: Sequence[AlertRevision] = ()
) -> str:
    """Return the page that says what was done. `changed` are the alerts that were decided, at their new version."""
    pairs = [("done", do), ("count", str(count)), *([("edit", edit_id)] if edit_id else [])]
    pairs += [("changed", "".join(_mark(*each[:2]) for each in changed))] if changed else []
    return f"{incident_url(incident_id)}?{urlencode(pairs)}"


def _mark(alert_id: str, version: int) -> str:
    """Return a digest of an alert at a version, MARK_LENGTH characters."""
    digest = blake2b(f"{version}:{alert_id}".encode(), digest_size=MARK_LENGTH * 3 // 4).digest()
    return urlsafe_b64encode(digest).decode()


def _read_done(request: Request) -> dict[str, str]:
    """Return what an address says was done; it carries no sentence, so it cannot be forged to show one."""
    given = request.query_params
    do, count = given.get("done", ""), given.get("count", "")
    if do not in DONE_SENTENCES or not (count.isascii() and count.isdecimal() and len(count) < 5):
        return {}
    return {"do": do, "count": count, "edit": given.get("edit", "")[:32]}


def _undoable(request: Request, found: Incident) -> list[str]:
    """Return the alerts whose decision Undo takes back; none where one of them was changed since, or grew."""
    marks = request.query_params.get("changed", "")
    decided = [marks[at : at + MARK_LENGTH] for at in range(0, len(marks), MARK_LENGTH)]
    now = {_mark(each.row.alert_id, each.row.version): each.row for each in found.alerts}
    if not all(each in now and not now[each].open for each in decided):
        return []
    return [now[each].alert_id for each in decided]


def _done_sentence(done: dict[str, str]) -> Markup:
    """Return what was done, as the page shows it."""
    return template_ngettext(*DONE_SENTENCES[done["do"]], int(done["count"]))


def _page(
    request: Request,
    deps: Dependencies,
    found: Incident,
    status: int = 200,
    error: str = "",
    done: dict[str, str] | None = None,
    typed: IncidentForm | None = None,
    other: str = "",
) -> Response:
    entries, notes = deps.store.incidents.activity(found.row.incident_id)
    gravest = max((each.row for each in found.alerts), key=lambda row: row.urgency)
    owners = {each.row.principal: each.row.alert_id for each in found.alerts}
    return render_page(
        request,
        "queue/incident.html",
        status,
        title=gettext("Incident %(incident)s", incident=found.row.incident_id[:12]),
        incident=found,
        gravest=gravest,
        principal_link=lambda name: urls.principal_url(name, owners.get(name, gravest.alert_id)),
        told=incident_story(deps.store, found, _served_bank(deps)),
        titles={each.row.alert_id: each.row.title for each in found.alerts},
        reasons=REASON_PHRASES,
        activity=_merge_lines(activity_log(entries, _once(notes), [])),
        edits=[each for each in found.edits if not each.undone],
        neighbours=_neighbours(deps, found),
        people=[each.name for each in active_people(deps)],
        error=error,
        done=done or {},
        undoable=_undoable(request, found),
        done_sentence=_done_sentence,
        typed=typed or IncidentForm(do=""),
        other=other,
        urls=urls,
        incident_url=incident_url,
        now=deps.clock.now(),
    )


def _served_bank(deps: Dependencies) -> Bank | None:
    """Return the served bank; None without one, or where it cannot be read: the page of banks says why."""
    try:
        return deps.banks.open_served() if deps.banks else None
    except FingerprintError:
        return None


def _once(notes: Sequence[CaseNote]) -> list[CaseNote]:
    """Return notes without repeats: a note on an incident is written on each of its alerts."""
    return list({(each.at, each.by, each.text): each for each in notes}.values())


def _merge_lines(lines: Sequence[ActivityLine]) -> list[tuple[ActivityLine, int]]:
    """Return lines without repeats, each with its number of alerts: a change of an incident has a line for each of them."""
    counted: dict[ActivityLine, int] = {}
    for each in lines:
        counted[each] = counted.get(each, 0) + 1
    return list(counted.items())


def _neighbours(deps: Dependencies, found: Incident) -> list[QueueRow]:
    """Return an alert of each other incident of the same principals within NEAR, the nearest first."""
    start, end = found.row.first_event_time, found.row.last_event_time
    rows: dict[str, QueueRow] = {}
    for principal in found.row.principals[:3]:
        near = AlertFilter(status="all", principal=principal, since=start - NEAR, until=end + NEAR)
        for row in deps.store.queue.first_rows(near, "newest", 50):
            if row.incident_id != found.row.incident_id:
                rows.setdefault(row.incident_id, row)
    return sorted(rows.values(), key=lambda row: _distance(row, found.row))[:MAX_NEIGHBOURS]


def _distance(row: QueueRow, incident: IncidentRow) -> timedelta:
    before = incident.first_event_time - row.last_event_time
    after = row.first_event_time - incident.last_event_time
    return max(before, after, timedelta())
