"""The queue: open alerts, the most urgent first.

Example:
    GET /?status=open&service=iam&by=tactic
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from pydantic import BaseModel, Field

from fingerprint.core.case import SavedView
from fingerprint.core.errors import FingerprintError
from fingerprint.core.incident import IncidentFilter
from fingerprint.core.sanitize import storable
from fingerprint.web import flash, queue_display, queue_query, urls
from fingerprint.web.auth import Analyst, Viewer
from fingerprint.web.dependencies import Deps, assignable_names
from fingerprint.web.language import gettext
from fingerprint.web.layout import redirect, render_page, safe_local_path
from fingerprint.web.query_words import QUERY_FIELD_WORDS
from fingerprint.web.trend_chart import draw_trend

ROWS_PER_PAGE = 50  # rows of a page
TREND_DAYS = 30  # days of the picture above the queue
MAX_VIEW_FIELD_LENGTH = 60  # characters of a view's name
EXPORT_FORMATS = (("csv", "CSV"), ("jsonl", "JSON lines"), ("ecs", "ECS"), ("ocsf", "OCSF"))
router = APIRouter()


@router.get("/")
def show_queue(request: Request, caller: Viewer, deps: Deps) -> Response:
    """Show rows, or groups where the query asks for them, below the result of the last change."""
    store, newest = deps.store, deps.store.changes.newest_number()
    query, refused = _read_query(request)
    which = query.filter_of(caller.name)
    counts = store.queue.counts(which)
    return render_page(
        request,
        "queue/queue.html",
        title=gettext("Queue"),
        status=400 if refused else 200,
        query=query,
        refused=refused,
        choices=queue_query.FIELD_CHOICES,
        query_fields=QUERY_FIELD_WORDS,
        unassigned=queue_query.UNASSIGNED,
        date_field_value=queue_query.date_field_value,
        counts=counts,
        open_incidents=store.incidents.count(IncidentFilter()),
        page=None
        if query.by
        else store.queue.page(which, query.order, ROWS_PER_PAGE, query.following, which.total_in(counts)),
        groups=store.queue.groups(which, query.by) if query.by else [],
        trend=draw_trend(store.queue.daily_counts(which, TREND_DAYS)),
        which=which,
        views=store.views.of_owner(caller.name),
        people=assignable_names(deps) if caller.has_role("analyst") else [],
        flash=flash.read_flash(request, store, deps.settings),
        select_all=request.query_params.get("select") == "all",
        newest_change=newest,
        export_formats=EXPORT_FORMATS,
        urls=urls,
        now=deps.clock.now(),
        **_display_context(request, query, deps),
    )


@dataclass(frozen=True, slots=True)
class RefusedSearch:
    """A search as it was typed, and why it cannot be read."""

    text: str
    why: str


def _read_query(request: Request) -> tuple[queue_query.QueueQuery, RefusedSearch | None]:
    """Return the query of the address. A search that cannot be read is left out; its field shows it with the error."""
    pairs = request.query_params.multi_items()
    try:
        return queue_query.parse_query_pairs(pairs), None
    except FingerprintError as error:
        others = [(name, value) for name, value in pairs if name != "q"]
        text = storable(dict(pairs).get("q", ""))[: queue_query.MAX_QUERY_VALUE_LENGTH]
        return queue_query.parse_query_pairs(others), RefusedSearch(text, str(error).removeprefix("q: "))


def _display_context(request: Request, query: queue_query.QueueQuery, deps: Deps) -> dict[str, Any]:
    """Return how this browser shows the queue, and where the headings of its columns lead."""
    display = queue_display.read_display(request, deps.settings)
    sorts = {
        name: (state, query.url_with(order=order))
        for name, (state, order) in queue_display.sort_states(query.order).items()
    }
    shown = {"display": display, "columns": queue_display.COLUMNS, "sorts": sorts}
    day_url = partial(_day_url, query)
    return shown | {"is_overdue": queue_display.is_overdue, "day_url": day_url}


def _day_url(query: queue_query.QueueQuery, day: date) -> str:
    """Return the address of the alerts that the trend counts on a day, whatever times the filter has."""
    return query.url_with(since=None, until=None, within=None, day=day)


class DisplayForm(BaseModel):
    """The way a browser shows the queue."""

    density: Annotated[str, Field(max_length=20)] = "table"
    column: Annotated[list[str], Field(max_length=40)] = []
    back: Annotated[str, Field(max_length=4000)] = "/"


@router.post("/display")
def submit_display(form: Annotated[DisplayForm, Form()], caller: Viewer, deps: Deps) -> Response:
    """Keep density and columns in this browser; without columns, the usual ones."""
    columns = form.column or queue_display.DEFAULT_COLUMNS
    display = queue_display.build_display(form.density, columns)
    return queue_display.set_display_cookie(redirect(safe_local_path(form.back)), display, deps.settings)


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
