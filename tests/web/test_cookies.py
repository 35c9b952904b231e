"""All cookies have one set of attributes: no script reads them, no other site sends them along, and https binds them."""

from __future__ import annotations

from typing import get_args

import pytest
from fastapi import Response

from fingerprint.core.settings import Settings
from fingerprint.web.cookies import CookieName, delete_cookie, set_cookie


@pytest.mark.parametrize("name", get_args(CookieName))
@pytest.mark.parametrize(("scheme", "prefix"), [("https", "__Host-"), ("http", "")])
def test_no_script_and_no_other_site_has_a_cookie(name: CookieName, scheme: str, prefix: str) -> None:
    settings = Settings.model_validate({"web": {"public_url": f"{scheme}://alerts.example.com"}})
    answer = Response()
    set_cookie(answer, name, "kept", settings, seconds=60)
    delete_cookie(answer, name, settings)
    made, deleted = (header.split("; ") for header in answer.headers.getlist("set-cookie"))
    assert (made[0], deleted[0]) == (f"{prefix}{name}=kept", f'{prefix}{name}=""')
    assert "Max-Age=60" in made
    assert "Max-Age=0" in deleted
    for header in (made, deleted):
        assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(header)
        assert ("Secure" in header) == (scheme == "https")


def test_a_cookie_without_seconds_ends_with_the_browser() -> None:
    answer = Response()
    set_cookie(answer, "session", "secret", Settings())
    assert "max-age" not in answer.headers["set-cookie"].lower()
