"""Suggestions while a query of the queue is typed.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$FINGERPRINT_URL/api/v1/suggestions?field=action&begins=Sto"
    [{"term": "action:StopLogging", "value": "StopLogging", "about": ""}]
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from fingerprint.core.alert_query import CHOICES, NO_VALUE, Term
from fingerprint.core.ports.store import Store
from fingerprint.web.api.queue_params import RequestModel, StorableText
from fingerprint.web.api.responses import ResponseModel
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Deps
from fingerprint.web.query_words import QUERY_FIELD_WORDS

router = APIRouter(tags=["alerts"])
MAX_SUGGESTIONS = 10
MAX_SUGGESTED_LENGTH = 200  # characters of a value; a longer one would fill the list
_CHOICES = CHOICES | {"assignee": ("me", NO_VALUE)}


class SuggestionParams(RequestModel):
    """The beginning of a term: of a field's value, or, without a field, of a field's name."""

    field: Annotated[StorableText, Field(description="a field of a query, such as `action`")] = ""
    begins: Annotated[StorableText, Field(description="what was typed of the value")] = ""


class Suggestion(ResponseModel):
    """A term as a query has it, quoted where it must be; its value alone, empty for a field's name; `about` explains a field."""

    term: str
    value: str
    about: str


@router.get("/suggestions")
def list_suggestions(
    params: Annotated[SuggestionParams, Query()], caller: Viewer, deps: Deps
) -> list[Suggestion]:
    """List up to ten terms that begin so: values that stored alerts have, or names of fields."""
    field, begins = params.field.lower(), params.begins
    if not field:
        return [
            Suggestion(term=f"{name}:", value="", about=about)
            for name, about in QUERY_FIELD_WORDS.items()
            if name.startswith(begins.lower())
        ][:MAX_SUGGESTIONS]
    return [
        Suggestion(term=str(Term(field, (value,))), value=value, about="")
        for value in _values(deps.store, field, begins)
    ]


def _values(store: Store, field: str, begins: str) -> list[str]:
    if field in _CHOICES:
        return [value for value in _CHOICES[field] if value.startswith(begins.lower())]
    found = store.queue.suggest(field, begins, MAX_SUGGESTIONS)
    return [value for value in found if len(value) <= MAX_SUGGESTED_LENGTH and '"' not in value]
