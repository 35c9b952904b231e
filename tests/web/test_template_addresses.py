"""The addresses that pages send people to are ones that the application answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

import fingerprint.web
from fingerprint.store import open_store
from tests.support.web_app import Site

TEMPLATES = Path(fingerprint.web.__file__).parent / "templates"
ADDRESS = re.compile(r'<(?P<tag>form|a)\b[^>]*?\b(?P<name>action|href)="(?P<path>/[^"?#]*)')
POST = re.compile(r'method="post"')


def addresses() -> list[tuple[str, str, str]]:
    """Template, method and path of each form and link, with a word where a template fills something in."""
    found = []
    for file in sorted(TEMPLATES.rglob("*.html")):
        for match in ADDRESS.finditer(file.read_text()):
            method = "POST" if POST.search(match.group(0)) else "GET"
            path = re.sub(r"\{\{.*?\}\}", "a1", match["path"])
            found.append((file.relative_to(TEMPLATES).as_posix(), method, path))
    return found


def answered(app: FastAPI) -> list[tuple[str, re.Pattern[str]]]:
    """Method and pattern of the path of each route."""
    return [
        (method, re.compile(re.sub(r"\{[^}]*\}", "[^/]+", route.path) + "$"))
        for route in iter_route_contexts(app.routes)
        for method in getattr(route, "methods", None) or ()
    ]


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, re.Pattern[str]]]:
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('store')}/alerts.sqlite")
    return answered(Site.of(store).app)


@pytest.mark.parametrize(("template", "method", "path"), addresses())
def test_an_address_in_a_template_is_answered(
    routes: list[tuple[str, re.Pattern[str]]], template: str, method: str, path: str
) -> None:
    path = path.replace("/accounts/a1/a1", "/accounts/a1/disable")  # the verb is the template's own loop
    there = [name for name, pattern in routes if pattern.match(path)]
    assert method in there, f"{template} sends to {method} {path}"


def test_the_addresses_are_found() -> None:
    assert len(addresses()) > 30
    assert ("queue/thresholds.html", "POST", "/thresholds") in addresses()
