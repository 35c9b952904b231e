"""Suppressions: what need not be read, for which reason, until when, at whose word; looked at before it is hidden.

Example:
    GET /suppressions/new?alert=3fa94c1be0d27a58
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from pydantic import BaseModel, Field

from fingerprint.alerting.suppression import FIELDS, LONGEST, LONGEST_REASON, LONGEST_TERM, said
from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import LARGEST_PAGE, Match
from fingerprint.web import urls
from fingerprint.web.auth import Engineer, Viewer
from fingerprint.web.dependencies import Doors, TheDoors
from fingerprint.web.layout import go, show
from fingerprint.web.suppression_suggestion import like

DAYS = 30  # a suppression lasts, unless somebody chooses otherwise
HINTS = {
    "principal": "as the queue shows it, whole",
    "human": "the person behind the session, beside a principal",
    "account": "the only one its events are in",
    "service": "iam",
    "action": "ListUsers, or iam:ListUsers",
    "network": "198.51.100.0/24, or one address",
    "user_agent": "its beginning, beside a principal",
    "error_code": "AccessDenied, beside a principal",
}
Value = Annotated[str, Field(max_length=LONGEST)]
router = APIRouter()


class Wish(BaseModel):
    """The form of a suppression. Of its match, what is empty asks nothing."""

    principal: Value = ""
    human: Value = ""
    account: Value = ""
    service: Value = ""
    action: Value = ""
    network: Value = ""
    user_agent: Value = ""
    error_code: Value = ""
    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""
    until: Annotated[str, Field(max_length=40)] = ""
    force: bool = False
    forced: Annotated[str, Field(max_length=LONGEST_REASON)] = ""

    @property
    def match(self) -> Match:
        """What browsers add around a value is left out; a user agent's beginning may end in a blank."""
        return Match(**{name: getattr(self, name).strip() for name in FIELDS})

    @property
    def expires_at(self) -> datetime:
        """The end of the day that was chosen, UTC."""
        try:
            return datetime.combine(date.fromisoformat(self.until), time.max, UTC)
        except ValueError:
            raise FingerprintError("until when? choose a day such as 2026-06-30") from None


@router.get("/suppressions")
def suppressions(request: Request, caller: Viewer, doors: TheDoors, ended: bool = False) -> Response:
    """Those in force, the next to expire first; with `ended` those that are over, too."""
    return show(
        request,
        "desk/suppressions.html",
        title="Suppressions",
        found=doors.desk.suppressions(ended),
        ended=ended,
        said=said,
        now=doors.clock.now(),
    )


@router.get("/suppressions/new")
def new(request: Request, caller: Engineer, doors: TheDoors, alert: str = "") -> Response:
    """An empty form, or one that asks for what an alert's events have in common."""
    until = doors.clock.now() + timedelta(days=DAYS)
    wish = Wish(until=f"{until:%Y-%m-%d}")
    if alert:
        found = doors.desk.explained(alert)
        events = doors.desk.evidence(alert, LARGEST_PAGE, raw=False).events
        wish = wish.model_copy(update={name: getattr(like(found, events), name) for name in FIELDS})
    return _form(request, doors, wish)


@router.post("/suppressions/preview")
def preview(wish: Annotated[Wish, Form()], request: Request, caller: Engineer, doors: TheDoors) -> Response:
    """What it would hide, and the form to change it or to go on. Nothing is hidden by looking."""
    return _tried(
        request, doors, wish, lambda: _form(request, doors, wish, preview=doors.desk.preview(wish.match))
    )


@router.post("/suppressions")
def create(wish: Annotated[Wish, Form()], request: Request, caller: Engineer, doors: TheDoors) -> Response:
    """Hide them from now on."""

    def suppress() -> Response:
        force = wish.forced if wish.force else None
        made = doors.desk.suppress(wish.match, wish.reason, wish.expires_at, caller.name, force)
        return go(f"/suppressions#s-{made.suppression_id}")

    return _tried(request, doors, wish, suppress)


@router.post("/suppressions/{suppression_id}/end")
def end(
    suppression_id: str, version: Annotated[int, Form(ge=0, le=2**31 - 1)], caller: Engineer, doors: TheDoors
) -> Response:
    """What it hid is seen again."""
    doors.desk.end_suppression(suppression_id, version, by=caller.name)
    return go("/suppressions")


def _tried(request: Request, doors: Doors, wish: Wish, work: Callable[[], Response]) -> Response:
    """What can be mended is said above the form, which keeps what was written."""
    try:
        return work()
    except FingerprintError as error:
        return _form(request, doors, wish, status=400, wrong=str(error))


def _form(request: Request, doors: Doors, wish: Wish, status: int = 200, **values: Any) -> Response:
    now = doors.clock.now()
    shown = {"preview": None, "wrong": "", **values}
    return show(
        request,
        "desk/suppress.html",
        status,
        title="A new suppression",
        wish=wish,
        fields=[
            (name, name.replace("_", " ").capitalize(), getattr(wish, name), HINTS[name]) for name in FIELDS
        ],
        soonest=f"{now:%Y-%m-%d}",
        latest=f"{now + LONGEST_TERM - timedelta(days=1):%Y-%m-%d}",
        longest=LONGEST,
        links=urls,
        now=now,
        **shown,
    )
