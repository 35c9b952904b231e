"""Responses of the API: ASCII JSON, finite numbers, ETags, and errors as problem+json (RFC 9457).

Example:
    >>> AsciiJSONResponse({"user_agent": "\\u202eexe", "z": 9.4}).body
    b'{"user_agent":"\\\\u202eexe","z":9.4}'

Texts are returned whole, as they were recorded. No text can control the terminal of a reader, since all but printable ASCII is
escaped.
"""

from __future__ import annotations

import json
import math
from http import HTTPStatus
from typing import Annotated, Any

from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict

from fingerprint.core.case import QueueRow
from fingerprint.core.sanitize import printable


class AsciiJSONResponse(JSONResponse):
    """JSON with all but printable ASCII escaped."""

    def render(self, content: Any) -> bytes:
        """Return compact JSON in ASCII."""
        text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        return text.replace("\x7f", "\\u007f").encode("ascii")


class ResponseModel(BaseModel):
    """The base of answers: built from the attributes of domain objects by field name."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


def _finite_or_none(value: Any) -> Any:
    """Return None for NaN and infinities, which JSON cannot express."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


FiniteFloat = Annotated[float | None, BeforeValidator(_finite_or_none)]


def alert_etag(row: QueueRow) -> str:
    """Return the ETag of an alert: its version and its number of events."""
    return f'"{row.version}-{row.events}"'


ResponseSpecs = dict[int | str, dict[str, Any]]
PROBLEM_MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """An error as in RFC 9457; `detail` is a sentence that says what to do."""

    type: str = "about:blank"
    status: int
    title: str
    detail: str


class ConflictProblem(Problem):
    """The alert was changed by another person; `now` is its current row."""

    now: QueueRow


class _ProblemJSONResponse(AsciiJSONResponse):
    media_type = PROBLEM_MEDIA_TYPE


def conflict_response(reason: str, now: QueueRow) -> AsciiJSONResponse:
    """Return the answer to a change that was not applied."""
    problem = ConflictProblem(status=409, title=HTTPStatus.CONFLICT.phrase, detail=printable(reason), now=now)
    return _ProblemJSONResponse(jsonable_encoder(problem), 409)


CONFLICT_RESPONSES: ResponseSpecs = {
    409: {"model": Problem, "description": "it was changed since it was read"}
}
SEEN_STATE_RESPONSES: ResponseSpecs = {
    428: {
        "model": Problem,
        "description": "the change does not name the version that was read, or its events",
    }
}
ALERT_CONFLICT_RESPONSES: ResponseSpecs = SEEN_STATE_RESPONSES | {
    409: {"model": ConflictProblem, "description": "it was changed since it was read"},
}
