"""The queue: open alerts, the most urgent first, as an analyst opens it in the morning and empties it.

Example:
    GET /?status=open&service=iam&by=tactic
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from pydantic import BaseModel, Field

from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import View
from fingerprint.web import flash, queue_query, urls
from fingerprint.web.auth import Analyst, Viewer
from fingerprint.web.dependencies import TheDoors
from fingerprint.web.layout import go, show

SIZE = 50  # rows of a page
LONGEST_NAME = 60  # characters of a view's name
router = APIRouter()


@router.get("/")
def queue(request: Request, caller: Viewer, doors: TheDoors) -> Response:
    """Rows, or groups where the address asks for them; what became of the last change stands above."""
    pairs, desk = request.query_params.multi_items(), doors.desk
    wanted, newest = queue_query.read(pairs), desk.newest_change()
    return show(
        request,
        "desk/queue.html",
        title="Queue",
        asked=wanted,
        choices=queue_query.CHOICES,
        nobody=queue_query.NOBODY,
        day_of=queue_query.day_of,
        counts=desk.counts(wanted.filter),
        page=None if wanted.by else desk.page(wanted.filter, wanted.order, SIZE, wanted.following),
        groups=desk.groups(wanted.filter, wanted.by) if wanted.by else [],
        views=desk.views(caller.name),
        after=flash.read(pairs, desk),
        newest=newest,
        links=urls,
        now=doors.clock.now(),
    )


class NewView(BaseModel):
    """A name for what an address asks."""

    name: Annotated[str, Field(max_length=LONGEST_NAME)]
    query: Annotated[str, Field(max_length=4000)] = ""


@router.post("/views")
def save_view(said: Annotated[NewView, Form()], caller: Analyst, doors: TheDoors) -> Response:
    """Keep what the queue shows under a name of one's own; the same name again is overwritten."""
    query = queue_query.of_query(said.query).query
    if not (name := said.name.strip()):
        raise FingerprintError("a view needs a name: go back and give it one")
    doors.desk.save_view(View(caller.name, name, query))
    return go(f"/?{query}")


@router.post("/views/forget")
def forget_view(said: Annotated[NewView, Form()], caller: Analyst, doors: TheDoors) -> Response:
    """Forget one of one's own views."""
    doors.desk.forget_view(caller.name, said.name)
    return go(f"/?{queue_query.of_query(said.query).query}")
