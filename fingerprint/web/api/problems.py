"""Answers that say no, as problem+json (RFC 9457): how they are declared, and the one that carries a row.

Example:
    {"type": "about:blank", "status": 409, "title": "Conflict", "detail": "maria decided on it: look again", "now": {...}}
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi.encoders import jsonable_encoder
from pydantic import BaseModel

from fingerprint.core.case import QueueRow
from fingerprint.core.sanitize import printable
from fingerprint.web.api.responses import AsciiJSONResponse

ResponseSpecs = dict[int | str, dict[str, Any]]
PROBLEM_MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """What went wrong, as RFC 9457 has it; `detail` is a sentence that says what to do."""

    type: str = "about:blank"
    status: int
    title: str
    detail: str


class ConflictProblem(Problem):
    """Somebody else changed the alert; `now` is how it stands."""

    now: QueueRow


class _ProblemJSONResponse(AsciiJSONResponse):
    media_type = PROBLEM_MEDIA_TYPE


def conflict_response(reason: str, now: QueueRow) -> AsciiJSONResponse:
    """The change was not made."""
    said = ConflictProblem(status=409, title=HTTPStatus.CONFLICT.phrase, detail=printable(reason), now=now)
    return _ProblemJSONResponse(jsonable_encoder(said), 409)


CONFLICT_RESPONSES: ResponseSpecs = {
    409: {"model": Problem, "description": "it was changed since it was read"}
}
ALERT_CONFLICT_RESPONSES: ResponseSpecs = {
    409: {"model": ConflictProblem, "description": "it was changed since it was read"},
    428: {"model": Problem, "description": "the change does not say which version was seen"},
}
