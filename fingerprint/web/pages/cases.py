"""What an analyst does to alerts, to one or to many: one form, from the queue and from an alert's page, with script and without.

Example:
    POST /changes   csrf=...&do=benign&why=a+migration&chosen=4-9:3fa94c1be0d27a58&back=/?service=iam
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, cast

from fastapi import APIRouter, Form, Response
from pydantic import BaseModel, Field

from fingerprint.core.alert import Decision, FingerprintError
from fingerprint.core.case import LARGEST_PAGE, Assign, Change, Chosen, Decide, Outcome, Reopen
from fingerprint.web import flash
from fingerprint.web.auth import Analyst
from fingerprint.web.dependencies import TheDoors, WholeDesk, checked
from fingerprint.web.layout import go, local

LONGEST = 4000  # characters of a reason or a note
router = APIRouter()


class Work(BaseModel):
    """The form. `do` is a decision, or one of take, assign, release, reopen and note; `chosen` are alerts as they were seen."""

    do: str
    chosen: list[str] = []
    why: Annotated[str, Field(max_length=LONGEST)] = ""
    duplicate_of: Annotated[str, Field(max_length=200)] = ""
    to: Annotated[str, Field(max_length=64)] = ""
    note: Annotated[str, Field(max_length=LONGEST)] = ""
    back: Annotated[str, Field(max_length=4000)] = "/"


@router.post("/changes")
def change(work: Annotated[Work, Form()], caller: Analyst, doors: TheDoors) -> Response:
    """To each of them or not to it; the page it came from says what became of it."""
    chosen = [each for each in map(flash.chosen, work.chosen) if each]
    if not chosen or len(chosen) > LARGEST_PAGE:
        raise FingerprintError(f"choose from 1 to {LARGEST_PAGE} alerts: go back and tick the ones you mean")
    if work.do == "note":
        outcomes = _noted(doors.desk, chosen, work.note, caller.name)
    else:
        outcomes = doors.desk.change(chosen, checked(_change(work, caller.name), doors), by=caller.name)
    return go(flash.path(local(work.back), work.do, outcomes))


def _change(work: Work, me: str) -> Change:
    if work.do in flash.DECISIONS:
        return Decide(cast(Decision, work.do), work.why.strip(), work.duplicate_of.strip())
    if work.do == "reopen":
        return Reopen(work.why.strip())
    to = {"take": me, "release": "", "assign": work.to.strip()}.get(work.do)
    if to is None:
        raise FingerprintError("nothing was done: choose what to do with the alerts")
    return Assign(to)


def _noted(desk: WholeDesk, chosen: Sequence[Chosen], text: str, by: str) -> list[Outcome]:
    """The same note on each. A note changes nothing that somebody else might have changed."""
    for each in chosen:
        desk.note(each.alert_id, text, by)
    return [Outcome(each.alert_id, True, each.version) for each in chosen]
