"""Actions on one or many alerts: one form for the queue and for an alert's page, with script and without.

Example:
    POST /changes   csrf=...&do=benign&why=a+migration&selected=4-9:3fa94c1be0d27a58&back=/?service=iam

A form that lacks something (a reason, an assignee or an original that exists) comes back with what was selected and written, and
says beside the field what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, cast

from fastapi import APIRouter, Form, Response
from pydantic import BaseModel, Field

from fingerprint.core.alert import Decision
from fingerprint.core.case import (
    MAX_NOTE_LENGTH,
    MAX_PAGE_SIZE,
    MAX_REASON_LENGTH,
    AlertRevision,
    AssignCase,
    CaseAction,
    ReopenCase,
    SetDisposition,
    UndoDecision,
    lacks_reason,
)
from fingerprint.core.errors import FingerprintError
from fingerprint.web import flash
from fingerprint.web.auth import Analyst
from fingerprint.web.dependencies import Dependencies, Deps, is_assignable
from fingerprint.web.layout import redirect, safe_local_path

router = APIRouter()


class AlertActionForm(BaseModel):
    """The form. `do` is a decision, or one of take, assign, release, reopen, take_back and note.

    `selected` are alerts at the version read.
    `take` is one alert to assign to the caller, whatever else is selected: the button of its row. `onward` opens the page `next`
    instead of `back` once the change is done. `here` is the form's own page, if it is not `back`: it says what was not done.
    """

    do: str = ""
    selected: list[str] = []
    take: Annotated[str, Field(max_length=300)] = ""
    why: Annotated[str, Field(max_length=MAX_REASON_LENGTH)] = ""
    duplicate_of: Annotated[str, Field(max_length=200)] = ""
    to: Annotated[str, Field(max_length=64)] = ""
    note: Annotated[str, Field(max_length=MAX_NOTE_LENGTH)] = ""
    back: Annotated[str, Field(max_length=4000)] = "/"
    here: Annotated[str, Field(max_length=4000)] = ""
    onward: bool = False
    next: Annotated[str, Field(max_length=4000)] = ""


@router.post("/changes")
def submit_alert_action(form: Annotated[AlertActionForm, Form()], caller: Analyst, deps: Deps) -> Response:
    """Apply the action to each alert or leave it; the page that follows shows the result."""
    do, sent = ("take", [form.take]) if form.take else (form.do, form.selected)
    revisions = [each for each in map(flash.parse_selection, sent) if each]
    if not revisions or len(revisions) > MAX_PAGE_SIZE:
        raise FingerprintError(f"choose from 1 to {MAX_PAGE_SIZE} alerts: go back and tick the ones you mean")
    here = safe_local_path(form.here or form.back)
    if refused := _find_refusal(do, form, revisions, deps):
        kept = flash.FlashNote(
            do,
            refused=refused,
            selected=tuple(sent),
            why=form.why,
            to=form.to,
            duplicate_of=form.duplicate_of,
        )
        return flash.set_flash(redirect(here), kept, deps.settings)
    if do == "note":
        outcomes = deps.store.cases.add_notes(revisions, form.note, caller.name)
    else:
        outcomes = deps.store.cases.change(revisions, _build_change(do, form, caller.name), by=caller.name)
    following = safe_local_path(form.next) if form.onward and form.next else safe_local_path(form.back)
    there = following if all(each.done for each in outcomes) else here
    return flash.set_flash(redirect(there), flash.note_outcomes(do, outcomes, form.why), deps.settings)


def _find_refusal(
    do: str, form: AlertActionForm, revisions: Sequence[AlertRevision], deps: Dependencies
) -> str:
    """Return the field for which the form is refused; empty if it is fine."""
    if lacks_reason(do, form.why):
        return "why"
    if do == "duplicate":
        originals = deps.store.evidence.find_ids(form.duplicate_of.strip())
        names_another = len(originals) == 1 and {each.alert_id for each in revisions} != set(originals)
        return "" if names_another else "duplicate_of"
    to = form.to.strip()
    return "to" if do == "assign" and not (to and is_assignable(to, deps)) else ""


def _build_change(do: str, form: AlertActionForm, caller_name: str) -> CaseAction:
    if do in flash.DECISIONS:
        original = form.duplicate_of.strip() if do == "duplicate" else ""
        return SetDisposition(cast(Decision, do), form.why.strip(), original)
    if do == "reopen":
        return ReopenCase(form.why.strip())
    if do == "take_back":
        return UndoDecision()
    to = {"take": caller_name, "release": "", "assign": form.to.strip()}.get(do)
    if to is None:
        raise FingerprintError("nothing was done: choose what to do with the alerts")
    return AssignCase(to)
