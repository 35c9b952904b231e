"""The API under /api/v1: one module a noun, each with its `router`."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.routing import APIRoute

from fingerprint.web.api import (
    accounts,
    alerts,
    audit,
    banks,
    cases,
    export,
    live,
    openapi,
    principals,
    saved_views,
    sessions,
    suppressions,
    thresholds,
    tokens,
)
from fingerprint.web.api.responses import AsciiJSONResponse

MODULES = (
    cases,
    export,
    alerts,
    principals,
    suppressions,
    thresholds,
    saved_views,
    audit,
    banks,
    tokens,
    sessions,
    accounts,
    live,
    openapi,
)


def _operation_id(route: APIRoute) -> str:
    """What a client's code may call an operation: `suppressions_preview`."""
    return "_".join([*map(str, route.tags), route.name]).replace(" ", "_")


def _combined_router() -> APIRouter:
    """Every noun's routes, answering as `answers.Ascii` does. Of two that fit a path the first answers."""
    together = APIRouter(default_response_class=AsciiJSONResponse, generate_unique_id_function=_operation_id)
    for noun in MODULES:
        together.include_router(noun.router)
    return together


ROUTERS: tuple[APIRouter, ...] = (_combined_router(),)
