"""Help within the app: keys, the words of the pages, how to filter. No link leads out of it.

Example:
    GET /help#keys
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from fingerprint.core.alert import SEVERITY_LEVELS
from fingerprint.web.auth import Viewer
from fingerprint.web.language import gettext
from fingerprint.web.layout import render_page
from fingerprint.web.query_words import QUERY_FIELD_WORDS

router = APIRouter()


@router.get("/help")
def show_help(request: Request, caller: Viewer) -> Response:
    """Show the help page."""
    return render_page(
        request, "help.html", title=gettext("Help"), levels=SEVERITY_LEVELS, query_fields=QUERY_FIELD_WORDS
    )
