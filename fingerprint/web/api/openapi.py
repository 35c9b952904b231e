"""The OpenAPI 3.1 description of the API at /api/v1/openapi.json: every route, answer and error.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$FINGERPRINT_URL/api/v1/openapi.json"
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi

from fingerprint.web.api.responses import PROBLEM_MEDIA_TYPE, AsciiJSONResponse, Problem
from fingerprint.web.auth import Viewer
from fingerprint.web.cookies import cookie_name
from fingerprint.web.dependencies import Deps

router = APIRouter(include_in_schema=False)
ERROR_DESCRIPTIONS = {
    400: "the request cannot be carried out: `detail` says why",
    401: "no token and no session, or one that is not good",
    403: "the role does not allow it",
    404: "not found",
    413: "the body is too large",
    422: "a parameter or the body cannot be read: the sentence names it",
    503: "the alert store is unavailable, a search took too long, or there are too many live streams",
}
JSON_MEDIA_TYPE = "application/json"

JsonObject = dict[str, Any]


@router.get("/openapi.json")
def get_openapi_document(request: Request, caller: Viewer, deps: Deps) -> AsciiJSONResponse:
    """Return the description of the API."""
    state = request.app.state
    if not hasattr(state, "description"):  # made once: it takes a while, and never changes
        state.description = build_openapi(request.app, cookie_name("session", deps.settings))
    return AsciiJSONResponse(state.description)


def build_openapi(app: FastAPI, cookie: str) -> JsonObject:
    """Return the description of an application's API; callers send a token or the cookie of a session."""
    description = get_openapi(title=f"{app.title} API", version=app.version, routes=app.routes)
    parts = description.setdefault("components", {})
    parts["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": cookie},
    }
    description["security"] = [{"token": []}, {"session": []}]
    parts["schemas"] = {
        name: schema for name, schema in parts["schemas"].items() if "ValidationError" not in name
    } | {"Problem": Problem.model_json_schema()}
    for path in description["paths"].values():
        for operation in path.values():
            _declare_errors(operation["responses"])
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _drop_null(parameter["schema"])
    return description


def _drop_null(schema: JsonObject) -> JsonObject:
    """Describe optional parameters as not nullable: a missing one is left out of the address or header."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return {name: part for name, part in schema.items() if name != "anyOf"} | kinds[0]


def _declare_errors(responses: JsonObject) -> None:
    """Return the error answers of a route, each as problem+json."""
    problem = {"$ref": "#/components/schemas/Problem"}
    for code, why in ERROR_DESCRIPTIONS.items():
        responses[str(code)] = {"description": why, "content": {PROBLEM_MEDIA_TYPE: {"schema": problem}}}
    for status, answer in responses.items():
        content = answer.get("content", {})
        if int(status) >= 400 and JSON_MEDIA_TYPE in content:
            content[PROBLEM_MEDIA_TYPE] = content.pop(JSON_MEDIA_TYPE)
