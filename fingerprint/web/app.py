"""The web application: pages under /, the API under /api/v1, health endpoints and static files.

Example:
    >>> app = create_app(Dependencies(store, accounts, clock, settings))
    >>> uvicorn.run(app)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import FileResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.routing import BaseRoute

from fingerprint.core.errors import FingerprintError
from fingerprint.detection.detectors import register_detectors
from fingerprint.web import errors, middleware, pages
from fingerprint.web.api import routers
from fingerprint.web.auth import Viewer
from fingerprint.web.change_feed import ChangeBroadcaster
from fingerprint.web.cookies import cookie_name
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.middleware import LanguageMiddleware, RequestGuard, allowed_host_names
from fingerprint.web.security_events import SecurityEventLog
from fingerprint.web.security_metrics import SecurityEventMiddleware
from fingerprint.web.static_report import TEMPLATES

STATIC = Path(__file__).parent / "static"


def create_app(deps: Dependencies, security: SecurityEventLog | None = None) -> FastAPI:
    """Return the application for these dependencies; it opens none itself. `security` counts in the program's registry."""
    web = deps.settings.web
    register_detectors(deps.settings)  # for their labels
    app = FastAPI(title="Fingerprint", version="1", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.dependencies, app.state.broadcaster = deps, ChangeBroadcaster(deps.store.changes)
    app.state.security = security or SecurityEventLog()
    errors.install_error_handlers(app)
    app.router.routes.extend(_create_routes())
    app.add_middleware(LanguageMiddleware, cookie=cookie_name("language", deps.settings))
    app.add_middleware(
        RequestGuard, hosts=allowed_host_names(web), max_body_bytes=middleware.MAX_BODY_BYTES, https=web.https
    )
    # the middleware added last is the outermost
    app.add_middleware(SecurityEventMiddleware, events=app.state.security, settings=deps.settings)
    return app


@cache
def _create_routes() -> Sequence[BaseRoute]:
    """Return the routes, made once per process and shared by all applications: FastAPI reads each function's signature once."""
    router = APIRouter()
    for pages_router in (health_router, *pages.ROUTERS):
        router.include_router(pages_router, include_in_schema=False)
    for api_router in routers.ROUTERS:
        router.include_router(api_router, prefix="/api/v1")
    router.add_api_route("/static/style.css", _serve_stylesheet, include_in_schema=False)
    router.mount("/static", StaticFiles(directory=STATIC))
    return tuple(router.routes)


def _serve_stylesheet() -> FileResponse:
    """Serve the stylesheet that the app shares with static reports."""
    return FileResponse(TEMPLATES / "style.css", headers={"Cache-Control": "no-cache"})


health_router = APIRouter(include_in_schema=False, default_response_class=PlainTextResponse)


@health_router.get("/livez")
async def livez() -> str:
    """Report that the server takes requests."""
    return "ok\n"


@health_router.get("/readyz")
def readyz(deps: Deps) -> PlainTextResponse:
    """Report whether the alert store is available."""
    try:
        deps.store.feeds.checked_until()
    except FingerprintError:  # the store has logged it
        return PlainTextResponse("the alert store is unavailable\n", 503)
    return PlainTextResponse("ok\n")


@health_router.get("/metrics")
def metrics(caller: Viewer) -> Response:
    """Prometheus'."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
