"""Actions on one or many alerts: one form for the queue and for an alert's page, with script and without.

Example:
    POST /changes   csrf=...&do=benign&why=a+migration&chosen=4-9:3fa94c1be0d27a58&back=/?service=iam
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, cast

from fastapi import APIRouter, Form, Response
from pydantic import BaseModel, Field

from fingerprint.core.alert import Decision, FingerprintError
from fingerprint.core.case import (
    MAX_PAGE_SIZE,
    ActionOutcome,
    AlertRevision,
    AssignCase,
    CaseAction,
    ReopenCase,
    SetDisposition,
)
from fingerprint.core.ports.store import Store
from fingerprint.web import flash
from fingerprint.web.auth import Analyst
from fingerprint.web.dependencies import Deps, check_assignee
from fingerprint.web.layout import redirect, safe_local_path

MAX_ACTION_TEXT = 4000  # characters of a reason or a note
router = APIRouter()


class AlertActionForm(BaseModel):
    """The form. `do` is a decision, or one of take, assign, release, reopen and note; `chosen` are alerts at the version read."""

    do: str
    chosen: list[str] = []
    why: Annotated[str, Field(max_length=MAX_ACTION_TEXT)] = ""
    duplicate_of: Annotated[str, Field(max_length=200)] = ""
    to: Annotated[str, Field(max_length=64)] = ""
    note: Annotated[str, Field(max_length=MAX_ACTION_TEXT)] = ""
    back: Annotated[str, Field(max_length=4000)] = "/"


@router.post("/changes")
def submit_alert_action(form: Annotated[AlertActionForm, Form()], caller: Analyst, deps: Deps) -> Response:
    """Apply the action to each alert or leave it; the page it came from shows the result."""
    chosen = [each for each in map(flash.parse_selection, form.chosen) if each]
    if not chosen or len(chosen) > MAX_PAGE_SIZE:
        raise FingerprintError(f"choose from 1 to {MAX_PAGE_SIZE} alerts: go back and tick the ones you mean")
    if form.do == "note":
        outcomes = _add_notes(deps.store, chosen, form.note, caller.name)
    else:
        outcomes = deps.store.cases.change(
            chosen, check_assignee(_build_change(form, caller.name), deps), by=caller.name
        )
    return redirect(flash.flash_url(safe_local_path(form.back), form.do, outcomes))


def _build_change(form: AlertActionForm, caller_name: str) -> CaseAction:
    if form.do in flash.DECISIONS:
        return SetDisposition(cast(Decision, form.do), form.why.strip(), form.duplicate_of.strip())
    if form.do == "reopen":
        return ReopenCase(form.why.strip())
    to = {"take": caller_name, "release": "", "assign": form.to.strip()}.get(form.do)
    if to is None:
        raise FingerprintError("nothing was done: choose what to do with the alerts")
    return AssignCase(to)


def _add_notes(store: Store, chosen: Sequence[AlertRevision], text: str, by: str) -> list[ActionOutcome]:
    """Add the same note to each alert. A note cannot conflict with other changes."""
    for each in chosen:
        store.cases.add_note(each.alert_id, text, by)
    return [ActionOutcome(each.alert_id, True, each.version) for each in chosen]
