"""Answers that say no, as problem+json (RFC 9457): how they are declared, and the one that carries a row.

Example:
    {"type": "about:blank", "status": 409, "title": "Conflict", "detail": "maria decided on it: look again", "now": {...}}
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi.encoders import jsonable_encoder
from pydantic import BaseModel

from fingerprint.core.case import Row
from fingerprint.core.sanitize import visible
from fingerprint.web.api.responses import Ascii

Declared = dict[int | str, dict[str, Any]]
MEDIA = "application/problem+json"


class Problem(BaseModel):
    """What went wrong, as RFC 9457 has it; `detail` is a sentence that says what to do."""

    type: str = "about:blank"
    status: int
    title: str
    detail: str


class Overtaken(Problem):
    """Somebody else changed the alert; `now` is how it stands."""

    now: Row


class _Answer(Ascii):
    media_type = MEDIA


def overtaken(reason: str, now: Row) -> Ascii:
    """The change was not made."""
    said = Overtaken(status=409, title=HTTPStatus.CONFLICT.phrase, detail=visible(reason), now=now)
    return _Answer(jsonable_encoder(said), 409)


CONFLICT: Declared = {409: {"model": Problem, "description": "somebody changed it since it was looked at"}}
OVERTAKEN: Declared = {
    409: {"model": Overtaken, "description": "somebody changed it since it was looked at"},
    428: {"model": Problem, "description": "the change does not say which version was seen"},
}
