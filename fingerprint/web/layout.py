"""Render a page of the app: a template within `layout.html`, escaped like every page (`static_report`).

Example:
    >>> return render_page(request, "queue/queue.html", title="Queue", page=page)

Every template has `caller` (None before the login), `csrf`, `nav` (the entries of the caller's role), `current_path`, `site` (its
title) and `fmt`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse

from fingerprint.core.account import Role
from fingerprint.web import language
from fingerprint.web.address_places import using_address_tables
from fingerprint.web.auth import Caller
from fingerprint.web.dependencies import Dependencies
from fingerprint.web.flash import clear_flash
from fingerprint.web.language import N_
from fingerprint.web.static_report import template_environment


class NavEntry(NamedTuple):
    """An entry of the navigation, for callers with the role."""

    path: str
    name: str
    role: Role


NAVIGATION = (
    NavEntry("/", N_("Queue"), "viewer"),
    NavEntry("/incidents", N_("Incidents"), "viewer"),
    NavEntry("/overview", N_("Overview"), "viewer"),
    NavEntry("/suppressions", N_("Suppressions"), "viewer"),
    NavEntry("/thresholds", N_("Thresholds"), "viewer"),
    NavEntry("/banks", N_("Banks and health"), "viewer"),
    NavEntry("/audit", N_("Audit"), "engineer"),
    NavEntry("/accounts", N_("Accounts"), "admin"),
)


def render_page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a page for the caller. `title` is among the values."""
    caller: Caller | None = getattr(request.state, "caller", None)
    deps: Dependencies = request.app.state.dependencies
    source = template_environment().get_template(template)
    with using_address_tables(deps.addresses):
        text = source.render(
            caller=caller,
            csrf=caller.csrf if caller else "",
            nav=[entry for entry in NAVIGATION if caller and caller.has_role(entry.role)],
            current_path=request.url.path,
            current_address=_current_address(request),
            language=language.current_language(),
            languages=language.available_languages(),
            script_words=language.script_words(),
            site=deps.settings.web.title,
            **values,
        )
    page = HTMLResponse(text, status)
    page.headers["Content-Language"] = language.current_language()
    page.headers["Vary"] = "Accept-Language, Cookie"
    if values.get("flash"):  # it was shown, once
        clear_flash(page, deps.settings)
    return page


def _current_address(request: Request) -> str:
    """Return the path to return to after a choice of language; the queue if this request is a form, which is not repeated."""
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{request.url.path}{query}" if request.method in ("GET", "HEAD") else "/"


def redirect(path: str) -> RedirectResponse:
    """Redirect to a page after a form (POST, redirect, GET)."""
    return RedirectResponse(path, 303)


def absolute_url(request: Request, path: str) -> str:
    """Return a path as an absolute URL, for links that are sent to other people."""
    deps: Dependencies = request.app.state.dependencies
    return f"{deps.settings.web.public_url or str(request.base_url).rstrip('/')}{path}"


def safe_local_path(path: str) -> str:
    """Return a path within the app to redirect to; the queue for anything else, since callers can forge it."""
    fine = (
        path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and path.isascii()
    )
    return path if fine and "\\" not in path and len(path) <= 2000 else "/"
