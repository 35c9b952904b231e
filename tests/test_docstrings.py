"""Docstrings of functions open with an imperative ("Return whether ..."), others with a noun: ruff's D401 knows no "What"."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOUN_CLAUSE = re.compile(r"(?:Whether|What|Which|Who|Whose|Where|When|Why|How|That)\b")


def noun_clauses(source: str) -> list[tuple[int, str]]:
    """Return line and name of each module, class, function and constant whose docstring opens with a noun clause."""
    tree = ast.parse(source)
    found = [
        (getattr(node, "lineno", 1), getattr(node, "name", "module"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and NOUN_CLAUSE.match(ast.get_docstring(node) or "")
    ]
    bodies = (node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef))
    return found + [
        (after.lineno, "constant")
        for body in bodies
        for before, after in pairwise(body)
        if isinstance(before, ast.Assign | ast.AnnAssign)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and NOUN_CLAUSE.match(str(after.value.value))
    ]


def test_docstrings_open_with_an_imperative_or_a_noun() -> None:
    files = [file for name in ("fingerprint", "pipelines") for file in (ROOT / name).rglob("*.py")]
    assert len(files) > 300
    found = {str(file.relative_to(ROOT)): noun_clauses(file.read_text()) for file in files}
    assert {name: functions for name, functions in found.items() if functions} == {}


def test_a_noun_clause_is_found() -> None:
    source = 'def good():\n    """Return what is left."""\n\n\nclass A:\n    def bad(self):\n        """What is left."""\n'
    assert noun_clauses(source) == [(6, "bad")]
    assert noun_clauses('"""How it works."""\n') == [(1, "module")]
    assert noun_clauses('LIMIT = 3\n"""How many there are."""\n') == [(2, "constant")]
