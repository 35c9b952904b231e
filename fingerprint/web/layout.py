"""A page of the site: one template within `site.html`, escaped as every page is (`page`).

Example:
    >>> return show(request, "queue/list.html", title="Queue", rows=page.rows)

Every template has `caller` (None before the login), `csrf`, `nav` (the entries of the caller's role), `here` (the path), `site`
(its title) and `words`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse

from fingerprint.core.account import Role
from fingerprint.web.auth import Caller
from fingerprint.web.dependencies import Dependencies
from fingerprint.web.static_report import template_environment


class NavEntry(NamedTuple):
    """A place the navigation leads to, for whoever has the role."""

    path: str
    name: str
    role: Role


NAVIGATION = (
    NavEntry("/", "Queue", "viewer"),
    NavEntry("/suppressions", "Suppressions", "viewer"),
    NavEntry("/thresholds", "Thresholds", "viewer"),
    NavEntry("/banks", "Banks and health", "viewer"),
    NavEntry("/audit", "Audit", "engineer"),
    NavEntry("/people", "Accounts", "admin"),
)


def render_page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The page, for whoever asks. `title` is among the values."""
    caller: Caller | None = getattr(request.state, "caller", None)
    doors: Dependencies = request.app.state.dependencies
    text = (
        template_environment()
        .get_template(template)
        .render(
            caller=caller,
            csrf=caller.csrf if caller else "",
            nav=[entry for entry in NAVIGATION if caller and caller.has_role(entry.role)],
            current_path=request.url.path,
            site=doors.settings.web.title,
            **values,
        )
    )
    return HTMLResponse(text, status)


def redirect(path: str) -> RedirectResponse:
    """After a form: on to a page (POST, redirect, GET)."""
    return RedirectResponse(path, 303)


def absolute_url(request: Request, path: str) -> str:
    """A path as somebody else can open it."""
    doors: Dependencies = request.app.state.dependencies
    return f"{doors.settings.web.public_url or str(request.base_url).rstrip('/')}{path}"


def safe_local_path(path: str) -> str:
    """A path of our own to go on to; the queue for anything else, since it came with the address."""
    fine = (
        path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and path.isascii()
    )
    return path if fine and "\\" not in path and len(path) <= 2000 else "/"
