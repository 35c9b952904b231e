"""What every answer of the API has in common: JSON in ASCII, figures that are figures, and an ETag to change by.

Example:
    >>> Ascii({"user_agent": "\\u202eexe", "z": 9.4}).body
    b'{"user_agent":"\\\\u202eexe","z":9.4}'

Texts are given whole and as they were recorded: nothing in them can steer the terminal of whoever reads an answer there, because
all but printable ASCII is escaped.
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
    """JSON with every character escaped that is not printable ASCII."""

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        return text.replace("\x7f", "\\u007f").encode("ascii")


class ResponseModel(BaseModel):
    """What an answer says: made from the house's own records, by their fields' names."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


def _finite_or_none(value: Any) -> Any:
    """JSON has no word for NaN or an infinity: null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


FiniteFloat = Annotated[float | None, BeforeValidator(_finite_or_none)]


def alert_etag(row: QueueRow) -> str:
    """What was seen of an alert: its version, and how many events it had."""
    return f'"{row.version}-{row.events}"'


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
