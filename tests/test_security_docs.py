"""The tests that the threat model and the ASVS page name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"
NAMED = re.compile(r"`((?:\w+/)*\w+\.py)(?:::(test_\w+))?`")


@pytest.mark.parametrize("page", ["explanation/threat-model.md", "reference/asvs.md"])
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    named = [
        (file, test)
        for file, test in NAMED.findall((DOCS / page).read_text())
        if "test" in file or "/" in file
    ]
    assert len(named) > 1
    missing = {file for file, _ in named if not (TESTS / file).exists()}
    assert missing == set()
    assert [test for file, test in named if test and f"def {test}(" not in (TESTS / file).read_text()] == []


def test_every_file_of_attackers_stands_in_the_threat_model() -> None:
    page = (DOCS / "explanation/threat-model.md").read_text()
    assert [
        file.name for file in (TESTS / "attacks").glob("test_*.py") if f"attacks/{file.name}" not in page
    ] == []
