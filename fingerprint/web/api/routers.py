"""The routers of the API under /api/v1, a module for each resource."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.routing import APIRoute

from fingerprint.web.api import (
    accounts,
    alerts,
    banks,
    cases,
    export,
    graph,
    incidents,
    leads,
    live,
    openapi,
    overview,
    principals,
    saved_views,
    sessions,
    suggestions,
    suppressions,
    thresholds,
)
from fingerprint.web.api.responses import AsciiJSONResponse

_PARTS = (
    cases.router,
    export.router,
    alerts.router,
    suggestions.router,
    incidents.router,
    leads.router,
    overview.router,
    graph.router,
    principals.router,
    suppressions.router,
    thresholds.router,
    saved_views.router,
    cases.audit_router,
    banks.router,
    accounts.token_router,
    sessions.router,
    accounts.router,
    accounts.people_router,
    live.router,
    openapi.router,
)


def _operation_id(route: APIRoute) -> str:
    """Return the name of an operation for generated clients: `suppressions_preview`."""
    return "_".join([*map(str, route.tags), route.name]).replace(" ", "_")


def _combined_router() -> APIRouter:
    """Return the routes of all parts, with ASCII JSON answers. Of two routes that match a path the first answers."""
    combined = APIRouter(default_response_class=AsciiJSONResponse, generate_unique_id_function=_operation_id)
    for part in _PARTS:
        combined.include_router(part)
    return combined


ROUTERS: tuple[APIRouter, ...] = (_combined_router(),)
