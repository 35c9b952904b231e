"""Suppressions: list, preview, create and end them.

Example:
    GET /suppressions/new?alert=3fa94c1be0d27a58
    GET /suppressions/new?principal=111122223333:role/etl&service=glue&action=StartJobRun
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from pydantic import BaseModel, Field

from fingerprint.alerting.suppression import (
    MATCH_FIELDS,
    MAX_DURATION,
    MAX_VALUE_LENGTH,
    MIN_ATTACKER_CONTROLLED_LENGTH,
    describe_match,
)
from fingerprint.analysis.leads import LEAD_DAYS
from fingerprint.core.alert import Alert, AlertEvent
from fingerprint.core.case import MAX_PAGE_SIZE, MAX_REASON_LENGTH, SuppressionMatch
from fingerprint.core.errors import FingerprintError
from fingerprint.web import urls
from fingerprint.web.auth import Engineer, Viewer
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.language import N_, gettext
from fingerprint.web.layout import redirect, render_page

# Days that a suppression lasts if no other end is chosen; one that hides a lead lasts as long as leads are listed
DEFAULT_SUPPRESSION_DAYS = 30
FIELD_HINTS = {
    "principal": N_("111122223333:role/etl, whole"),
    "human": N_("the person behind the session, beside a principal"),
    "account": N_("the only one its events are in"),
    "service": N_("iam"),
    "action": N_("ListUsers, or iam:ListUsers"),
    "network": N_("198.51.100.0/24, or one address"),
    "user_agent": N_("its beginning, beside a principal"),
    "error_code": N_("AccessDenied, beside a principal"),
}
FIELD_LABELS = {name: name.replace("_", " ").capitalize() for name in MATCH_FIELDS}
MatchText = Annotated[str, Field(max_length=MAX_VALUE_LENGTH)]
router = APIRouter()


class SuppressionForm(BaseModel):
    """The form of a suppression. Empty fields match everything."""

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
        """Return the match without surrounding blanks, which browsers may add."""
        return SuppressionMatch(**{name: getattr(self, name).strip() for name in MATCH_FIELDS})

    @property
    def expires_at(self) -> datetime:
        """Return the end of the chosen day, UTC."""
        try:
            return datetime.combine(date.fromisoformat(self.until), time.max, UTC)
        except ValueError:
            raise FingerprintError("until when? choose a day such as 2026-06-30") from None


# fields of the form whose values the alert store can suggest, by the field of the query language that has them
SUGGESTED = {
    "principal": "principal",
    "human": "person",
    "account": "account",
    "service": "service",
    "action": "action",
    "user_agent": "agent",
    "error_code": "error",
}


@router.get("/suppressions")
def show_suppressions(request: Request, caller: Viewer, deps: Deps, ended: bool = False) -> Response:
    """Show suppressions in force, the next to expire first; with `ended` also those that are over."""
    return render_page(
        request,
        "queue/suppressions.html",
        title=gettext("Suppressions"),
        suppressions=deps.store.suppressions.list_all(ended),
        ended=ended,
        describe_match=describe_match,
        now=deps.clock.now(),
    )


@router.get("/suppressions/new")
def show_suppression_form(
    request: Request,
    caller: Engineer,
    deps: Deps,
    alert: str = "",
    principal: MatchText = "",
    service: MatchText = "",
    action: MatchText = "",
) -> Response:
    """Show an empty form, or one filled with what the events of an alert, or of a lead, have in common."""
    until = deps.clock.now() + timedelta(days=LEAD_DAYS if principal else DEFAULT_SUPPRESSION_DAYS)
    wish = SuppressionForm(principal=principal, service=service, action=action, until=f"{until:%Y-%m-%d}")
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
    """Show the alerts that it would hide above the form; nothing is hidden yet."""
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
    """Hide matching alerts from now on."""

    def suppress() -> Response:
        force = form.forced if form.force else None
        made = deps.store.suppressions.create(form.match, form.reason, form.expires_at, caller.name, force)
        return redirect(f"/suppressions#s-{made.suppression_id}")

    return _run_or_explain(request, deps, form, suppress)


@router.post("/suppressions/{suppression_id}/end")
def submit_suppression_end(
    suppression_id: str, version: Annotated[int, Form(ge=0, le=2**31 - 1)], caller: Engineer, deps: Deps
) -> Response:
    """End a suppression and show its alerts again."""
    deps.store.suppressions.end(suppression_id, version, by=caller.name)
    return redirect("/suppressions")


def _run_or_explain(
    request: Request, deps: Dependencies, form: SuppressionForm, work: Callable[[], Response]
) -> Response:
    """Return the answer; on a FingerprintError the form with the error, which keeps its values."""
    try:
        return work()
    except FingerprintError as error:
        return _form(request, deps, form, status=400, error=str(error))


def _form(
    request: Request, deps: Dependencies, form: SuppressionForm, status: int = 200, **values: Any
) -> Response:
    now = deps.clock.now()
    shown = {"preview": None, "error": "", **values}
    return render_page(
        request,
        "queue/suppression_form.html",
        status,
        title=gettext("A new suppression"),
        form=form,
        fields=[(name, FIELD_LABELS[name], getattr(form, name), FIELD_HINTS[name]) for name in MATCH_FIELDS],
        labels=FIELD_LABELS,
        soonest=f"{now:%Y-%m-%d}",
        latest=f"{now + MAX_DURATION - timedelta(days=1):%Y-%m-%d}",
        longest=MAX_VALUE_LENGTH,
        suggested=SUGGESTED,
        urls=urls,
        now=now,
        **shown,
    )


def suggest_match(alert: Alert, events: Collection[AlertEvent]) -> SuppressionMatch:
    """Return the narrowest match that all events have in common; the analyst may widen it."""
    return SuppressionMatch(
        principal=_common_value([alert.principal]),
        service=_common_value(event.service for event in events),
        action=_common_value(event.action for event in events),
        network=_parse_address(_common_value(event.source_address for event in events)),
        user_agent=_common_value((event.user_agent for event in events), MIN_ATTACKER_CONTROLLED_LENGTH),
        error_code=_common_value((event.error_code for event in events), MIN_ATTACKER_CONTROLLED_LENGTH),
    )


def _common_value(values: Iterable[str], min_length: int = 1) -> str:
    """Return the value that all `values` share, if a suppression can match it; else an empty text."""
    found = set(values)
    only = next(iter(found), "")
    return (
        only if len(found) == 1 and min_length <= len(only.strip()) and len(only) <= MAX_VALUE_LENGTH else ""
    )


def _parse_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""
