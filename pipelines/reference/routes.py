"""The reference of the API's routes: role, method, path and description of each.

Example:
    >>> routes_page().splitlines()[0]
    '# API routes'
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from fastapi.routing import iter_route_contexts

from fingerprint.web.api.routers import ROUTERS
from pipelines.reference.tables import cell

ROUTES_HEAD = """\
# API routes

Generated from the routes of the web server by `python -m pipelines.reference`; do not edit.

Paths begin with `/api/v1`. *By session* refuses tokens; *confirmed* means by session, with an identity confirmed within the last
ten minutes. Requests, filters, errors: [HTTP API](http-api.md).

| role | route | |
|---|---|---|
"""
ROLES = {
    "Viewer": "viewer",
    "Analyst": "analyst",
    "Engineer": "engineer",
    "Admin": "admin",
    "SessionCaller": "viewer, by session",
    "SessionAdmin": "admin, by session",
    "ReauthenticatedCaller": "viewer, confirmed",
    "ReauthenticatedAdmin": "admin, confirmed",
}  # of the parameter `caller` (fingerprint.web.auth)


def routes_page() -> str:
    """Return the reference of the API's routes as Markdown: role, method, path and description of each."""
    rows = [
        (route.path or "", sorted(route.methods or ()), route.endpoint)
        for router in ROUTERS
        for route in iter_route_contexts(router.routes)
        if route.endpoint
    ]
    return ROUTES_HEAD + "".join(
        f"| {_role_of(endpoint)} | `{' '.join(methods)} {path.replace(':path', '')}` | {_summary(endpoint)} |\n"
        for path, methods, endpoint in sorted(rows, key=lambda row: row[:2])
    )


def _role_of(endpoint: Callable[..., Any]) -> str:
    """Return the role that a route needs, by the annotation of its parameter `caller`."""
    return ROLES[str(inspect.signature(endpoint).parameters["caller"].annotation)]


def _summary(endpoint: Callable[..., Any]) -> str:
    """Return the first paragraph of a route's docstring."""
    return cell(inspect.cleandoc(endpoint.__doc__ or "").split("\n\n")[0])
