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

from fingerprint.alerting.suppression import (
    MATCH_FIELDS,
    MAX_DURATION,
    MAX_REASON_LENGTH,
    MAX_VALUE_LENGTH,
    describe_match,
)
from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import MAX_PAGE_SIZE, SuppressionMatch
from fingerprint.web import urls
from fingerprint.web.auth import Engineer, Viewer
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.layout import redirect, render_page
from fingerprint.web.suppression_suggestion import suggest_match

DEFAULT_SUPPRESSION_DAYS = 30  # a suppression lasts, unless somebody chooses otherwise
FIELD_HINTS = {
    "principal": "as the queue shows it, whole",
    "human": "the person behind the session, beside a principal",
    "account": "the only one its events are in",
    "service": "iam",
    "action": "ListUsers, or iam:ListUsers",
    "network": "198.51.100.0/24, or one address",
    "user_agent": "its beginning, beside a principal",
    "error_code": "AccessDenied, beside a principal",
}
MatchText = Annotated[str, Field(max_length=MAX_VALUE_LENGTH)]
router = APIRouter()


class SuppressionForm(BaseModel):
    """The form of a suppression. Of its match, what is empty asks nothing."""

    principal: MatchText = ""
    human: MatchText = ""
    account: MatchText = ""
    service: MatchText = ""
    action: MatchText = ""
    network: MatchText = ""
    user_agent: MatchText = ""
    error_code: MatchText = ""
    reason: Annotated[str, Field(max_length=MAX_REASON_LENGTH)] = ""
    until: Annotated[str, Field(max_length=40)] = ""
    force: bool = False
    forced: Annotated[str, Field(max_length=MAX_REASON_LENGTH)] = ""

    @property
    def match(self) -> SuppressionMatch:
        """What browsers add around a value is left out; a user agent's beginning may end in a blank."""
        return SuppressionMatch(**{name: getattr(self, name).strip() for name in MATCH_FIELDS})

    @property
    def expires_at(self) -> datetime:
        """The end of the day that was chosen, UTC."""
        try:
            return datetime.combine(date.fromisoformat(self.until), time.max, UTC)
        except ValueError:
            raise FingerprintError("until when? choose a day such as 2026-06-30") from None


@router.get("/suppressions")
def show_suppressions(request: Request, caller: Viewer, deps: Deps, ended: bool = False) -> Response:
    """Those in force, the next to expire first; with `ended` those that are over, too."""
    return render_page(
        request,
        "desk/suppressions.html",
        title="Suppressions",
        found=deps.store.suppressions.list_all(ended),
        ended=ended,
        said=describe_match,
        now=deps.clock.now(),
    )


@router.get("/suppressions/new")
def show_suppression_form(request: Request, caller: Engineer, deps: Deps, alert: str = "") -> Response:
    """An empty form, or one that asks for what an alert's events have in common."""
    until = deps.clock.now() + timedelta(days=DEFAULT_SUPPRESSION_DAYS)
    wish = SuppressionForm(until=f"{until:%Y-%m-%d}")
    if alert:
        found = deps.store.evidence.summary(alert)
        events = deps.store.evidence.events(alert, MAX_PAGE_SIZE, raw=False).events
        wish = wish.model_copy(
            update={name: getattr(suggest_match(found, events), name) for name in MATCH_FIELDS}
        )
    return _form(request, deps, wish)


@router.post("/suppressions/preview")
def submit_suppression_preview(
    form: Annotated[SuppressionForm, Form()], request: Request, caller: Engineer, deps: Deps
) -> Response:
    """What it would hide, and the form to change it or to go on. Nothing is hidden by looking."""
    return _run_or_explain(
        request,
        deps,
        form,
        lambda: _form(request, deps, form, preview=deps.store.suppressions.preview(form.match)),
    )


@router.post("/suppressions")
def submit_suppression(
    form: Annotated[SuppressionForm, Form()], request: Request, caller: Engineer, deps: Deps
) -> Response:
    """Hide them from now on."""

    def suppress() -> Response:
        force = form.forced if form.force else None
        made = deps.store.suppressions.create(form.match, form.reason, form.expires_at, caller.name, force)
        return redirect(f"/suppressions#s-{made.suppression_id}")

    return _run_or_explain(request, deps, form, suppress)


@router.post("/suppressions/{suppression_id}/end")
def submit_suppression_end(
    suppression_id: str, version: Annotated[int, Form(ge=0, le=2**31 - 1)], caller: Engineer, deps: Deps
) -> Response:
    """What it hid is seen again."""
    deps.store.suppressions.end(suppression_id, version, by=caller.name)
    return redirect("/suppressions")


def _run_or_explain(
    request: Request, deps: Dependencies, form: SuppressionForm, work: Callable[[], Response]
) -> Response:
    """What can be mended is said above the form, which keeps what was written."""
    try:
        return work()
    except FingerprintError as error:
        return _form(request, deps, form, status=400, wrong=str(error))


def _form(
    request: Request, deps: Dependencies, form: SuppressionForm, status: int = 200, **values: Any
) -> Response:
    now = deps.clock.now()
    shown = {"preview": None, "wrong": "", **values}
    return render_page(
        request,
        "desk/suppress.html",
        status,
        title="A new suppression",
        wish=form,
        fields=[
            (name, name.replace("_", " ").capitalize(), getattr(form, name), FIELD_HINTS[name])
            for name in MATCH_FIELDS
        ],
        soonest=f"{now:%Y-%m-%d}",
        latest=f"{now + MAX_DURATION - timedelta(days=1):%Y-%m-%d}",
        longest=MAX_VALUE_LENGTH,
        links=urls,
        now=now,
        **shown,
    )
