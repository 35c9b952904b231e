"""The queue: open alerts, the most urgent first.

Example:
    GET /?status=open&service=iam&by=tactic
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from pydantic import BaseModel, Field

from fingerprint.core.alert import FingerprintError
from fingerprint.core.alert_query import FIELDS
from fingerprint.core.case import SavedView
from fingerprint.web import flash, queue_query, urls
from fingerprint.web.auth import Analyst, Viewer
from fingerprint.web.dependencies import Deps
from fingerprint.web.layout import redirect, render_page

ROWS_PER_PAGE = 50  # rows of a page
MAX_VIEW_FIELD_LENGTH = 60  # characters of a view's name
router = APIRouter()


@router.get("/")
def show_queue(request: Request, caller: Viewer, deps: Deps) -> Response:
    """Show rows, or groups where the query asks for them, below the result of the last change."""
    pairs, store = request.query_params.multi_items(), deps.store
    wanted, newest = queue_query.parse_query_pairs(pairs), store.changes.newest_number()
    which = wanted.filter_of(caller.name)
    return render_page(
        request,
        "queue/queue.html",
        title="Queue",
        query=wanted,
        choices=queue_query.FIELD_CHOICES,
        query_fields=FIELDS,
        unassigned=queue_query.UNASSIGNED,
        date_field_value=queue_query.date_field_value,
        counts=store.queue.counts(which),
        page=None
        if wanted.by
        else store.queue.page(which, wanted.order, ROWS_PER_PAGE, wanted.following),
        groups=store.queue.groups(which, wanted.by) if wanted.by else [],
        views=store.views.of_owner(caller.name),
        flash=flash.read_flash(pairs, store),
        newest_change=newest,
        urls=urls,
        now=deps.clock.now(),
    )


class SavedViewForm(BaseModel):
    """A name for a query of the queue."""

    name: Annotated[str, Field(max_length=MAX_VIEW_FIELD_LENGTH)]
    query: Annotated[str, Field(max_length=4000)] = ""


@router.post("/views")
def submit_view(form: Annotated[SavedViewForm, Form()], caller: Analyst, deps: Deps) -> Response:
    """Save the query of the queue under a name and overwrite an earlier view of that name."""
    query = queue_query.parse_query_string(form.query).query
    if not (name := form.name.strip()):
        raise FingerprintError("a view needs a name: go back and give it one")
    deps.store.views.save(SavedView(caller.name, name, query))
    return redirect(f"/?{query}")


@router.post("/views/forget")
def submit_view_deletion(form: Annotated[SavedViewForm, Form()], caller: Analyst, deps: Deps) -> Response:
    """Delete a view of the caller."""
    deps.store.views.delete(caller.name, form.name)
    return redirect(f"/?{queue_query.parse_query_string(form.query).query}")
