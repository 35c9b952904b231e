"""The application: the pages under /, the API under /api/v1, what every request passes, and nothing that is not named here.

Example:
    >>> app = create_app(Doors(desk, people, clock, settings))
    >>> uvicorn.run(app)
"""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

from fingerprint.detection.detectors import register_detectors
from fingerprint.web import api, errors, health, middleware, pages
from fingerprint.web.change_feed import ChangeBroadcaster
from fingerprint.web.dependencies import Dependencies
from fingerprint.web.middleware import RequestGuard, allowed_host_names
from fingerprint.web.security_events import SecurityEventLog
from fingerprint.web.security_metrics import SecurityEventMiddleware
from fingerprint.web.static_report import TEMPLATES

STATIC = Path(__file__).parent / "static"


def create_app(deps: Dependencies, security: SecurityEventLog | None = None) -> FastAPI:
    """The whole application over its doors; it opens nothing itself. `security` counts in the program's own registry."""
    web = deps.settings.web
    register_detectors(deps.settings)  # their labels
    app = FastAPI(title="Fingerprint", version="1", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.dependencies, app.state.broadcaster = deps, ChangeBroadcaster(deps.store.changes)
    app.state.security = security or SecurityEventLog()
    errors.install_error_handlers(app)
    for router in (health.router, *pages.ROUTERS):
        app.include_router(router, include_in_schema=False)
    for router in api.ROUTERS:
        app.include_router(router, prefix="/api/v1")
    app.add_api_route("/static/style.css", _serve_stylesheet, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC))
    app.add_middleware(
        RequestGuard, hosts=allowed_host_names(web), max_body_bytes=middleware.MAX_BODY_BYTES, https=web.https
    )
    app.add_middleware(
        SecurityEventMiddleware, events=app.state.security, settings=deps.settings
    )  # the last is the outermost
    return app


def _serve_stylesheet() -> FileResponse:
    """The look that the site shares with pages that stand alone."""
    return FileResponse(TEMPLATES / "style.css", headers={"Cache-Control": "no-cache"})
