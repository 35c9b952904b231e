"""The queue: open alerts, the most urgent first, as an analyst opens it in the morning and empties it.

Example:
    GET /?status=open&service=iam&by=tactic
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from pydantic import BaseModel, Field

from fingerprint.core.alert import FingerprintError
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
    """Rows, or groups where the address asks for them; what became of the last change stands above."""
    pairs, desk = request.query_params.multi_items(), deps.store
    wanted, newest = queue_query.parse_query_pairs(pairs), desk.changes.newest_number()
    return render_page(
        request,
        "desk/queue.html",
        title="Queue",
        asked=wanted,
        choices=queue_query.FIELD_CHOICES,
        nobody=queue_query.UNASSIGNED,
        day_of=queue_query.date_field_value,
        counts=desk.queue.counts(wanted.filter),
        page=None
        if wanted.by
        else desk.queue.page(wanted.filter, wanted.order, ROWS_PER_PAGE, wanted.following),
        groups=desk.queue.groups(wanted.filter, wanted.by) if wanted.by else [],
        views=desk.views.of_owner(caller.name),
        after=flash.read_flash(pairs, desk),
        newest=newest,
        links=urls,
        now=deps.clock.now(),
    )


class SavedViewForm(BaseModel):
    """A name for what an address asks."""

    name: Annotated[str, Field(max_length=MAX_VIEW_FIELD_LENGTH)]
    query: Annotated[str, Field(max_length=4000)] = ""


@router.post("/views")
def submit_view(form: Annotated[SavedViewForm, Form()], caller: Analyst, deps: Deps) -> Response:
    """Keep what the queue shows under a name of one's own; the same name again is overwritten."""
    query = queue_query.parse_query_string(form.query).query
    if not (name := form.name.strip()):
        raise FingerprintError("a view needs a name: go back and give it one")
    deps.store.views.save(SavedView(caller.name, name, query))
    return redirect(f"/?{query}")


@router.post("/views/forget")
def submit_view_deletion(form: Annotated[SavedViewForm, Form()], caller: Analyst, deps: Deps) -> Response:
    """Forget one of one's own views."""
    deps.store.views.delete(caller.name, form.name)
    return redirect(f"/?{queue_query.parse_query_string(form.query).query}")
