"""Docstrings of functions open with an imperative ("Return whether ..."): ruff's D401 does not know "What" from a verb."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOUN_CLAUSE = re.compile(r"(?:Whether|What|Which|Who|Whose|Where|When|Why|How|That)\b")


def noun_clauses(source: str) -> list[tuple[int, str]]:
    """Return line and name of each function whose docstring opens with a noun clause."""
    return [
        (node.lineno, node.name)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and NOUN_CLAUSE.match(ast.get_docstring(node) or "")
    ]


def test_docstrings_of_functions_open_with_an_imperative() -> None:
    files = [file for name in ("fingerprint", "pipelines") for file in (ROOT / name).rglob("*.py")]
    assert len(files) > 300
    found = {str(file.relative_to(ROOT)): noun_clauses(file.read_text()) for file in files}
    assert {name: functions for name, functions in found.items() if functions} == {}


def test_a_noun_clause_is_found() -> None:
    source = 'def good():\n    """Return what is left."""\n\n\nclass A:\n    def bad(self):\n        """What is left."""\n'
    assert noun_clauses(source) == [(6, "bad")]
