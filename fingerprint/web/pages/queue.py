"""The queue: open alerts, the most urgent first, as an analyst opens it in the morning and empties it.

Example:
    GET /?status=open&service=iam&by=tactic
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from pydantic import BaseModel, Field

from fingerprint.casework import View
from fingerprint.domain import FingerprintError
from fingerprint.web import after, asked, links
from fingerprint.web.access import Analyst, Viewer
from fingerprint.web.doors import TheDoors
from fingerprint.web.site import go, show

SIZE = 50  # rows of a page
LONGEST_NAME = 60  # characters of a view's name
router = APIRouter()


@router.get("/")
def queue(request: Request, caller: Viewer, doors: TheDoors) -> Response:
    """Rows, or groups where the address asks for them; what became of the last change stands above."""
    pairs, desk = request.query_params.multi_items(), doors.desk
    wanted, newest = asked.read(pairs), desk.newest_change()
    return show(
        request,
        "desk/queue.html",
        title="Queue",
        asked=wanted,
        choices=asked.CHOICES,
        nobody=asked.NOBODY,
        day_of=asked.day_of,
        counts=desk.counts(wanted.filter),
        page=None if wanted.by else desk.page(wanted.filter, wanted.order, SIZE, wanted.following),
        groups=desk.groups(wanted.filter, wanted.by) if wanted.by else [],
        views=desk.views(caller.name),
        after=after.read(pairs, desk),
        newest=newest,
        links=links,
        now=doors.clock.now(),
    )


class NewView(BaseModel):
    """A name for what an address asks."""

    name: Annotated[str, Field(max_length=LONGEST_NAME)]
    query: Annotated[str, Field(max_length=4000)] = ""


@router.post("/views")
def save_view(said: Annotated[NewView, Form()], caller: Analyst, doors: TheDoors) -> Response:
    """Keep what the queue shows under a name of one's own; the same name again is overwritten."""
    query = asked.of_query(said.query).query
    if not (name := said.name.strip()):
        raise FingerprintError("a view needs a name: go back and give it one")
    doors.desk.save_view(View(caller.name, name, query))
    return go(f"/?{query}")


@router.post("/views/forget")
def forget_view(said: Annotated[NewView, Form()], caller: Analyst, doors: TheDoors) -> Response:
    """Forget one of one's own views."""
    doors.desk.forget_view(caller.name, said.name)
    return go(f"/?{asked.of_query(said.query).query}")
