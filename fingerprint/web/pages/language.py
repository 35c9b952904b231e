"""The language of the pages, as a person chose it in the account menu; kept in a cookie of the browser.

Example:
    POST /language   csrf=...&language=de&back=/incidents
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Response
from pydantic import BaseModel, Field

from fingerprint.core.errors import FingerprintError
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.web.auth import Viewer
from fingerprint.web.cookies import set_cookie
from fingerprint.web.dependencies import Deps
from fingerprint.web.language import available_languages
from fingerprint.web.layout import redirect, safe_local_path

KEPT_SECONDS = 400 * DAY_SECONDS  # the longest that browsers keep a cookie
router = APIRouter()


class LanguageForm(BaseModel):
    """The code of a language, and the page that it was chosen on."""

    language: Annotated[str, Field(max_length=20)]
    back: Annotated[str, Field(max_length=4000)] = "/"


@router.post("/language")
def submit_language(form: Annotated[LanguageForm, Form()], caller: Viewer, deps: Deps) -> Response:
    """Keep the language in this browser and show the page again."""
    if form.language not in available_languages():
        raise FingerprintError(f"language: choose one of {', '.join(available_languages())}")
    answer = redirect(safe_local_path(form.back))
    set_cookie(answer, "language", form.language, deps.settings, KEPT_SECONDS)
    return answer
